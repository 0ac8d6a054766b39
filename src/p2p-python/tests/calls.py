"""The calls and results of `uccl.p2p`."""

import ctypes
import logging
import threading
import unittest

from support import endpoint, pattern
from tcpxctl import p2p

p2p.as_uccl()
import uccl.p2p  # noqa: E402

SIZE = 200_000


class Calls(unittest.TestCase):
    def setUp(self):
        self.client, self.server = endpoint("client"), endpoint("server")
        self.addCleanup(self.client.close)
        self.addCleanup(self.server.close)
        # A program receives the peer's metadata into a buffer of the length of its own.
        self.assertEqual(len(self.client.get_metadata()), len(self.server.get_metadata()))
        ip, port, bdf = uccl.p2p.Endpoint.parse_metadata(self.server.get_metadata())
        self.assertEqual((ip, bdf), ("127.0.0.1", ""))
        ok, self.conn = self.client.connect(ip, bdf, remote_port=port)
        self.assertTrue(ok)
        ok, ip, gpu, self.back = self.server.accept()
        self.assertEqual((ok, ip, gpu), (True, "127.0.0.1", -1))

    def memory(self, endpoint, content):
        buffer = ctypes.create_string_buffer(content, len(content))
        ok, mr = endpoint.reg(ctypes.addressof(buffer), len(content), p2p.FloatType.kFloat32)
        self.assertTrue(ok)
        return buffer, mr, ctypes.addressof(buffer)

    def finish(self, endpoint, begun):
        ok, transfer = begun
        self.assertTrue(ok, endpoint.last_error)
        done = False
        while not done:
            ok, done = endpoint.poll_async(transfer)
            self.assertTrue(ok, endpoint.last_error)

    def test_the_module_is_the_one_of_the_name(self):
        from uccl import p2p as imported

        self.assertIs(imported, p2p)

    def test_read_and_write(self):
        content, other = pattern(SIZE), pattern(SIZE, 5)
        source, mr, ptr = self.memory(self.server, content)
        ok, blob = self.server.advertise(mr, ptr, SIZE)
        self.assertTrue(ok and len(blob) == 64)
        self.assertTrue(self.server.advertise(self.back, mr, ptr, SIZE)[0], "as older programs call it")
        target, local, to = self.memory(self.client, bytes(SIZE))
        self.assertIs(self.client.read(self.conn, local, to, SIZE, blob), True)
        self.assertEqual(target.raw, content)
        target.raw = other
        self.assertIs(self.client.write(self.conn, local, to, SIZE, blob), True)
        self.assertEqual(source.raw, other)
        target.raw = content
        self.finish(self.client, self.client.write_async(self.conn, local, to, SIZE, blob))
        self.assertEqual(source.raw, content)
        target.raw = bytes(SIZE)
        self.finish(self.client, self.client.read_async(self.conn, local, to, SIZE, blob))
        self.assertEqual(target.raw, content)
        self.assertIs(self.client.dereg(local), True)
        self.assertIs(self.client.dereg(local), False)
        self.assertIn("does not exist", self.client.last_error)

    def test_vectors(self):
        sizes = [1, 4096, 65_537, 7]
        contents = [pattern(size, seed) for seed, size in enumerate(sizes)]
        served = [self.memory(self.server, content) for content in contents]
        mrs, ptrs = [one[1] for one in served], [one[2] for one in served]
        ok, blobs = self.server.advertisev(mrs, ptrs, sizes, 4)
        self.assertTrue(ok and [len(blob) for blob in blobs] == [64] * 4)
        self.assertTrue(self.server.advertisev(self.back, mrs, ptrs, sizes, 4)[0])
        targets = [ctypes.create_string_buffer(size) for size in sizes]
        to = [ctypes.addressof(target) for target in targets]
        ok, local = self.client.regv(to, sizes)
        self.assertTrue(ok)
        self.assertTrue(self.client.readv(self.conn, local, to, sizes, blobs, 4))
        self.assertEqual([target.raw for target in targets], contents)
        for target in targets:
            target.raw = b"\x01" * len(target)
        self.finish(self.client, self.client.writev_async(self.conn, local, to, sizes, blobs, 4))
        self.assertEqual([one[0].raw for one in served], [b"\x01" * size for size in sizes])
        self.assertFalse(self.client.readv(self.conn, local, to, sizes, blobs, 5))
        self.assertIn("5 pieces, but a vector has 4", self.client.last_error)

    def test_send_and_receive(self):
        content = pattern(SIZE)
        _, mr, ptr = self.memory(self.client, content)
        target, local, to = self.memory(self.server, bytes(SIZE))
        receiving = threading.Thread(target=self.server.recv, args=(self.back, local, to, SIZE))
        receiving.start()
        self.assertIs(self.client.send(self.conn, mr, ptr, SIZE), True)
        receiving.join()
        self.assertEqual(target.raw, content)
        target.raw = bytes(SIZE)
        begun = self.server.recv_async(self.back, local, to, SIZE)
        self.finish(self.client, self.client.send_async(self.conn, mr, ptr, SIZE))
        self.finish(self.server, begun)
        self.assertEqual(target.raw, content)
        halves = [ptr, ptr + 7], [to, to + 7], [7, SIZE - 7]
        target.raw = bytes(SIZE)
        arguments = (self.back, [local] * 2, halves[1], halves[2], 2)
        receiving = threading.Thread(target=self.server.recvv, args=arguments)
        receiving.start()
        self.assertTrue(self.client.sendv(self.conn, [mr] * 2, halves[0], halves[2], 2))
        receiving.join()
        self.assertEqual(target.raw, content)
        target.raw = bytes(SIZE)
        begun = self.server.recvv_async(*arguments)
        self.finish(self.client, self.client.sendv_async(self.conn, [mr] * 2, halves[0], halves[2], 2))
        self.finish(self.server, begun)
        self.assertEqual(target.raw, content)

    def test_the_names_of_the_module_of_that_name(self):
        """Those of `uccl` 0.1.1, apart from `XferHandle`, which no call takes or returns."""
        calls = """
            accept accept_local add_remote_endpoint advertise advertise_ipc advertisev advertisev_ipc conn_id_of_rank
            connect connect_local dereg deregister_memory deserialize_descs get_metadata get_serialized_descs
            parse_metadata poll_async read read_async read_ipc read_ipc_async readv readv_async readv_ipc
            readv_ipc_async recv recv_async recv_ipc recv_ipc_async recvv recvv_async reg register_memory regv
            remove_remote_endpoint send send_async send_ipc send_ipc_async sendv sendv_async start_passive_accept
            transfer write write_async write_ipc write_ipc_async writev writev_async writev_ipc writev_ipc_async"""
        self.assertEqual([call for call in calls.split() if not callable(getattr(self.client, call, None))], [])
        types = {name: int(getattr(uccl.p2p, name)) for name in p2p.FloatType.__members__}
        expected = ["kUndefined", "kFloat16", "kBFloat16", "kFloat32", "kFloat8E4M3FN", "kFloat8E5M2"]
        self.assertEqual(types, {name: number for number, name in enumerate(expected)})

    def test_tensors(self):
        content = [pattern(1000), pattern(70_000, 8)]
        remote = self.server.register_memory(content)
        serialized = self.server.get_serialized_descs(remote)
        targets = [bytearray(1000), bytearray(70_000)]
        local = self.client.register_memory(targets)
        far = self.client.deserialize_descs(serialized)
        self.finish(self.client, self.client.transfer(self.conn, "read", local, far))
        self.assertEqual(targets, content)
        ok, transfer = self.client.transfer(self.conn, "write", local, far)
        while ok:
            ok, done = self.client.poll_async(transfer)
            self.assertFalse(done)
        self.assertIn("not advertised for a write", self.client.last_error)
        self.assertTrue(self.client.deregister_memory(local))
        self.assertTrue(self.server.deregister_memory(remote))
        with self.assertRaises(p2p.UsageError):
            self.client.deserialize_descs(serialized[:-1])

    def test_remote_endpoints(self):
        self.assertTrue(self.server.start_passive_accept())
        ok, conn = self.client.add_remote_endpoint(self.server.get_metadata())
        self.assertTrue(ok)
        self.assertEqual(self.client.add_remote_endpoint(self.server.get_metadata()), (True, conn))
        self.assertIs(self.client.remove_remote_endpoint(conn), True)
        self.assertIs(self.client.remove_remote_endpoint(conn), False)
        ok, again = self.client.add_remote_endpoint(self.server.get_metadata())
        self.assertTrue(ok and again != conn)
        self.assertEqual(self.client.conn_id_of_rank(0), 2**64 - 1)

    def test_calls_of_one_node_say_what_to_call_instead(self):
        calls = ["connect_local", "accept_local"]
        kinds = ["write", "read", "writev", "readv", "send", "recv"]
        calls += [f"{kind}_ipc{ending}" for kind in kinds for ending in ("", "_async")]
        calls += ["advertise_ipc", "advertisev_ipc"]
        for call in calls:
            with self.subTest(call=call):
                result = getattr(self.client, call)(1, 2, 3)
                self.assertIs(result if isinstance(result, bool) else result[0], False)
                self.assertIn(f"{call}: tcpxctl maps no memory into another process", self.client.last_error)

    def test_why_a_call_failed_is_logged(self):
        with self.assertLogs("tcpxctl.p2p", logging.WARNING) as logged:
            self.assertEqual(self.client.connect("127.0.0.1", "", 1), (False, 0))
        self.assertIn("nothing is known of an endpoint at 127.0.0.1 port 1", logged.output[0])
        self.assertEqual(self.client.poll_async(12345), (False, False))


if __name__ == "__main__":
    logging.getLogger("tcpxctl.p2p").addHandler(logging.NullHandler())
    unittest.main()
