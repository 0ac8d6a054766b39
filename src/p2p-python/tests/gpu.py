"""GPU memory: endpoints of a GPU, buffers by `__cuda_array_interface__` and DLPack, and what is refused.

The driver is that of `tests/cuda/fake_cuda.c`, whose memory is host memory that only its calls know.
"""

import ctypes
import unittest

from objects import Tensor
from support import pattern
from tcpxctl import p2p

SIZE = 300_001
DRIVER = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    code = getattr(DRIVER, name)(*arguments)
    if code != 0:
        raise RuntimeError(f"{name}: {code}")


class Array:
    """A buffer of a GPU, as CuPy and PyTorch describe theirs."""

    def __init__(self, gpu, content, **described):
        context, self.address = ctypes.c_void_p(), ctypes.c_uint64()
        call("cuInit", 0)
        call("cuDevicePrimaryCtxRetain", ctypes.byref(context), gpu)
        call("cuCtxSetCurrent", context)
        call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(len(content) + 8192))
        # Not on a page, as a tensor in the middle of an allocation.
        self.start, self.size = self.address.value + 100, len(content)
        self.put(content)
        data = {"data": (self.start, False), "shape": (self.size,), "typestr": "|u1", "version": 3}
        self.__cuda_array_interface__ = {**data, **described}

    def put(self, content):
        ctypes.memset(self.address.value, 0xC5, self.size + 8192)
        ctypes.memmove(self.start, bytes(content), self.size)

    def content(self):
        whole = ctypes.string_at(self.address.value, self.size + 8192)
        canaries = whole[:100] + whole[100 + self.size :]
        if canaries != b"\xc5" * len(canaries):
            raise AssertionError("bytes beside the buffer changed")
        return whole[100 : 100 + self.size]


def endpoint(name, *gpu, **options):
    options = {"plugin": "builtin", "address": "127.0.0.1", "lanes": 2, "chunk": 65536, **options}
    made = p2p.Endpoint(*gpu, name=name, **options)
    return made


class Gpu(unittest.TestCase):
    def pair(self, here, there):
        self.addCleanup(here.close)
        self.addCleanup(there.close)
        connection = here.connect_to(there.metadata)
        there.accept_connection(30)
        return connection

    def test_every_byte_of_one_gpu_reaches_the_other(self):
        here, there = endpoint("here", gpu=0), endpoint("there", gpu=1)
        connection = self.pair(here, there)
        _, _, bdf = there.parse_metadata(there.get_metadata())
        self.assertRegex(bdf, r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0$")
        source, target = Array(1, pattern(SIZE)), Array(0, bytes(SIZE))
        blob = there.register(source).advertise()
        self.assertEqual(connection.read(target, blob), SIZE)
        self.assertEqual(target.content(), pattern(SIZE))
        target.put(pattern(SIZE, 7))
        self.assertEqual(connection.write(target, blob), SIZE)
        self.assertEqual(source.content(), pattern(SIZE, 7))

    def test_the_calls_of_uccl_move_the_memory_that_a_pointer_is_of(self):
        here, there = endpoint("here", 0, 4), endpoint("there", 0)
        connection = self.pair(here, there)
        target, source = Array(0, bytes(SIZE)), ctypes.create_string_buffer(pattern(SIZE), SIZE)
        ok, mr = there.reg(ctypes.addressof(source), SIZE)
        self.assertTrue(ok, there.last_error)
        ok, blob = there.advertise(mr, ctypes.addressof(source), SIZE)
        self.assertTrue(ok, there.last_error)
        ok, local = here.reg(target.start, SIZE)
        self.assertTrue(ok, here.last_error)
        self.assertTrue(here.read(connection.number, local, target.start, SIZE, blob), here.last_error)
        self.assertEqual(target.content(), pattern(SIZE))
        descs = there.register_memory([Array(0, pattern(SIZE, 3))])
        local = here.register_memory([target])
        ok, transfer = here.transfer(connection.number, "read", local, descs)
        while ok:
            ok, done = here.poll_async(transfer)
            if done:
                break
        self.assertTrue(ok, here.last_error)
        self.assertEqual(target.content(), pattern(SIZE, 3))

    def test_what_is_refused(self):
        one = endpoint("one", gpu=0)
        self.addCleanup(one.close)
        contiguous = Array(0, bytes(4096))
        null = Array(0, bytes(16), data=(0, False))
        gaps = Array(0, bytes(4096), shape=(4, 4), typestr="<f4", strides=(32, 4))
        buffer = ctypes.create_string_buffer(4096)
        for refused, words in [
            (bytearray(4096), "is not memory of GPU 0"),
            (Tensor(buffer, (4, 4)), "is not memory of GPU 0"),
            (Tensor(buffer, (4, 4), device=(7, 0)), "DLPack device 7:0"),
            (null, "null pointer"),
            (gaps, "not contiguous"),
            (Array(1, bytes(4096)), "is on GPU 1"),
            (Array(0, bytes(16), shape=(1 << 40,)), "its allocation ends after"),
            (Array(0, bytes(16), typestr="float"), "no usable typestr"),
        ]:
            with self.assertRaises(p2p.UsageError) as raised:
                one.register(refused)
            self.assertIn(words, str(raised.exception))
        one.register(contiguous).close()
        with self.assertRaisesRegex(p2p.PluginError, "there is no GPU 9"):
            endpoint("none", gpu=9)
        with self.assertRaisesRegex(p2p.UsageError, "both name a GPU"):
            endpoint("both", 0, gpu=0)
        with self.assertRaisesRegex(p2p.UsageError, "neither a CUDA device number nor a PCI address"):
            endpoint("word", gpu="first")


if __name__ == "__main__":
    unittest.main()
