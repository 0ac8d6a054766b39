"""Endpoints, connections and memory as objects that raise."""

import array
import ctypes
import mmap
import threading
import unittest

from support import Pair, endpoint, pattern
from tcpxctl import p2p

try:
    import numpy
except ImportError:
    numpy = None

SIZE = 300_001


class DlTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]  # fmt: skip


class Tensor:
    """What `__dlpack__` of a PyTorch tensor on the CPU gives, without PyTorch."""

    def __init__(self, buffer, shape, strides=None, device=(1, 0), offset=0):
        self.device = device
        numbers = ctypes.c_int64 * len(shape)
        self.held = (numbers(*shape), numbers(*strides) if strides else None)
        address = ctypes.addressof(buffer) if buffer is not None else None
        self.tensor = DlTensor(address, *device, len(shape), 2, 32, 1, self.held[0], self.held[1], offset)

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


class Objects(Pair):
    def test_a_read_and_a_write_move_every_byte(self):
        content, other = pattern(SIZE), pattern(SIZE, 9)
        source, served = self.guarded(self.there, content)
        target, local = self.guarded(self.here, bytes(SIZE))
        self.assertEqual(self.connection.read(local, served.advertise("read")), SIZE)
        self.assertEqual(target[4096:-4096], content)
        target[4096:-4096] = other
        self.assertEqual(self.connection.write(local, served.advertise("write")), SIZE)
        self.assertEqual(source[4096:-4096], other)

    def test_kinds_of_buffers(self):
        content = pattern(4096)
        served = self.there.register(content)
        self.assertTrue(served.readonly)
        blob = served.advertise("read")
        mapped = mmap.mmap(-1, 4096)
        self.addCleanup(lambda: (self.here.close(), mapped.close()))
        kinds = [bytearray(4096), memoryview(bytearray(8192))[4096:], mapped]
        kinds += [array.array("i", bytes(4096)), (ctypes.c_char * 4096)()]
        if numpy is None:
            print("skipped: no NumPy")
        else:
            kinds += [numpy.zeros(4096, numpy.uint8), numpy.zeros((32, 32), numpy.float32)]
        for buffer in kinds:
            with self.subTest(kind=type(buffer).__name__):
                self.assertEqual(self.connection.read(buffer, blob), 4096)
                self.assertEqual(bytes(buffer), content)

    def test_a_tensor_by_dlpack(self):
        content = pattern(4096)
        served = self.there.register(content)
        buffer = (ctypes.c_char * 8192)()
        tensor = Tensor(buffer, (4, 256), strides=(256, 1), offset=1024)
        self.assertEqual(self.connection.read(tensor, served.advertise("read")), 4096)
        self.assertEqual(buffer.raw, bytes(1024) + content + bytes(3072))
        bad = [
            (Tensor(buffer, (4, 256), strides=(512, 1)), "not contiguous"),
            (Tensor(buffer, (4, 256), device=(2, 3)), "GPU memory (DLPack device 2:3)"),
            (Tensor(None, (4, 256)), "null pointer"),
            (Tensor(buffer, (1 << 62, 1 << 62)), "impossible shape"),
        ]
        for tensor, words in bad:
            with self.assertRaises(p2p.UsageError) as raised:
                self.here.register(tensor)
            self.assertIn(words, str(raised.exception))

    def test_several_in_flight_and_vectors(self):
        content = pattern(SIZE)
        _, served = self.guarded(self.there, content)
        target, local = self.guarded(self.here, bytes(SIZE))
        blob, whole = served.advertise(), local.memory
        starts = range(0, SIZE, 10_007)
        part = lambda at: whole[4096 + at : 4096 + min(at + 10_007, SIZE)]
        transfers = [self.connection.read_async(part(at), blob, at) for at in starts]
        self.assertEqual(sum(transfer.wait(30) for transfer in reversed(transfers)), SIZE)
        self.assertEqual(target[4096:-4096], content)
        target[4096:-4096] = bytes(SIZE)
        self.connection.readv([(part(at), blob, at) for at in starts], timeout=30)
        self.assertEqual(target[4096:-4096], content)

    def test_send_and_receive_match_in_order(self):
        one, two = pattern(5000, 3), pattern(5000, 4)
        buffers = [bytearray(5000), bytearray(5000)]
        receives = [self.accepted.receive_async(self.there.register(buffer)) for buffer in buffers]
        self.connection.send(one)
        self.connection.send(two)
        for receive in receives:
            receive.wait(30)
        self.assertEqual(buffers, [one, two])

    def test_notifications_arrive(self):
        self.connection.notify(b"ready")
        self.assertEqual(self.there.notification(30), (self.accepted.number, b"ready"))
        with self.assertRaises(p2p.TimedOut):
            self.there.notification(0.01)

    def test_accept_waits_without_the_gil(self):
        extra = endpoint("extra")
        self.addCleanup(extra.close)
        connecting = threading.Thread(target=extra.connect_to, args=(self.there.metadata,))
        connecting.start()
        self.assertEqual(self.there.accept_connection(30).peer, "extra")
        connecting.join()

    def test_registered_memory_is_kept_and_registrations_are_shared(self):
        blob = self.there.register(bytearray(pattern(100))).advertise()
        into = bytearray(100)
        self.connection.read(into, blob)
        self.assertEqual(into, pattern(100), "the only reference to the buffer is the endpoint's")
        memory = self.here.register(into)
        again = self.here.register(into)
        self.assertEqual(memory.number, again.number)
        with self.assertRaises(BufferError):
            into.append(0)
        memory.close()
        again.close()
        into.append(0)

    def test_a_closed_endpoint_says_so(self):
        memory = self.here.register(bytearray(10))
        self.here.close()
        self.here.close()
        memory.close()
        for call in (lambda: self.here.metadata, lambda: self.here.register(bytearray(1)), self.here.notification):
            with self.assertRaises(p2p.ClosedError):
                call()


if __name__ == "__main__":
    unittest.main()
