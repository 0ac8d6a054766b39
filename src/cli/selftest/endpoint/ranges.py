"""Rows about connections and single ranges: what `serve` and `drive` do. See side.py."""

MIB = 1 << 20
KEPT = []  # buffers that the endpoint uses until the process ends


def shared_path():
    return "/dev/shm/tcpxctl-selftest-%d" % os.getpid()


# Metadata and connections.


def serve_connect(side):
    conn = side.meet()
    hear()
    return "connection %s" % conn


def drive_connect(side):
    metadata = hear_bytes()
    ip, port, _ = side.kind.parse_metadata(metadata)
    if not isinstance(ip, str) or not 0 < port < 65536:
        raise Broken("parse_metadata returned %r, %r" % (ip, port))
    if len(metadata) != len(side.metadata()):
        raise Broken("metadata of two endpoints has %d and %d bytes" % (len(metadata), len(side.metadata())))
    conn = side.connect(metadata)
    say("connected")
    return "connection %s to %s port %d" % (conn, ip, port)


# Done means that the bytes are there.

SIZES = (1, 4096, 70001, 8 * MIB)


def serve_read_done(side):
    conn = side.meet()
    buffer = Buffer(SIZES[-1])
    mr = side.reg(buffer.address, buffer.size)
    while True:
        task = hear()
        if task == "over":
            return
        buffer.put(pattern(*task))
        say(side.advertise(conn, mr, buffer.address, task[1]))


def drive_read_done(side):
    conn = side.meet()
    buffer = Buffer(SIZES[-1])
    mr = side.reg(buffer.address, buffer.size)
    checked = 0
    for seed, size in enumerate(SIZES * 2):
        before, wanted = bytes(buffer.get(0, size)), pattern(seed, size)
        say([seed, size])
        blob = hear_bytes()
        if seed < len(SIZES):
            side.operate("read", conn, mr, buffer.address, size, blob)
        else:
            side.finish(side.begin("read_async", conn, mr, buffer.address, size, blob))
        # The moment of done: nothing may come between.
        found = buffer.get(0, size)
        wrong = difference(found, wanted, before)
        if wrong:
            raise Broken("a read of %d bytes was done: %s" % (size, wrong))
        checked += size
    buffer.check_edges("in the reader")
    say("over")
    return "%d bytes compared at the moment of done" % checked


def serve_write_done(side):
    conn = side.meet()
    path = shared_path() if side.task["one_node"] else None
    buffer = Buffer(SIZES[-1], path=path)
    say(path or "")
    mr = side.reg(buffer.address, buffer.size)
    say(side.advertise(conn, mr, buffer.address, buffer.size))
    while True:
        size = hear()
        if size == "over":
            buffer.check_edges("where it was written to")
            say("intact")
            return
        say(buffer.get(0, size))


def drive_write_done(side):
    conn = side.meet()
    path = hear()
    far = None
    if path:
        far = Buffer(SIZES[-1], path=path)
        os.unlink(path)
    blob = hear_bytes()
    buffer = Buffer(SIZES[-1])
    mr = side.reg(buffer.address, buffer.size)
    before, checked = bytes(buffer.size), 0
    for seed, size in enumerate(SIZES * 2):
        wanted = pattern(seed, size)
        buffer.put(wanted)
        if seed < len(SIZES):
            side.operate("write", conn, mr, buffer.address, size, blob)
        else:
            side.finish(side.begin("write_async", conn, mr, buffer.address, size, blob))
        if far:
            found = far.get(0, size)
        else:
            say(size)
            found = hear_bytes()
        wrong = difference(found, wanted, before[:size])
        if wrong:
            raise Broken("a write of %d bytes was done: %s" % (size, wrong))
        before, checked = wanted + before[size:], checked + size
    say("over")
    hear()
    how = "in the other process's memory" if far else "as the other node read them after"
    return "%d bytes compared %s the moment of done" % (checked, how + " at" if far else how)


# Ranges.


def serve_unaligned(side):
    conn = side.meet()
    for skew, size in UNALIGNED:
        buffer = Buffer(size, skew)
        buffer.put(pattern(skew, size))
        KEPT.append(buffer)
        side.offer(conn, buffer)
    hear()
    for buffer in KEPT:
        buffer.check_edges("where it was read")
        settle(buffer.get, pattern(9, buffer.size), "a write")


UNALIGNED = [(1, 1), (3, 4095), (7, 65537), (511, 300001)]


def drive_unaligned(side):
    conn = side.meet()
    for skew, size in UNALIGNED:
        blob, buffer = hear_bytes(), Buffer(size, 2 * skew + 1)
        mr = side.reg(buffer.address, size)
        side.operate("read", conn, mr, buffer.address, size, blob)
        settle(buffer.get, pattern(skew, size), "%d bytes at an address + %d" % (size, skew))
        buffer.put(pattern(9, size))
        side.operate("write", conn, mr, buffer.address, size, blob)
        buffer.check_edges("in the reader")
    say("over")
    return "%d ranges, up to %d bytes" % (len(UNALIGNED), UNALIGNED[-1][1])


def serve_inside(side):
    conn = side.meet()
    buffer = Buffer(MIB)
    buffer.put(pattern(1, MIB))
    mr = side.reg(buffer.address, MIB)
    for start, size in INSIDE:
        say(side.advertise(conn, mr, buffer.address + start, size))
    hear()
    wanted = bytearray(pattern(1, MIB))
    for start, size in INSIDE:
        wanted[start : start + size] = pattern(start, size)
    settle(buffer.get, bytes(wanted), "a write inside a registration")


INSIDE = [(4096, 8192), (100_000, 65536), (MIB - 5000, 5000)]


def drive_inside(side):
    conn = side.meet()
    for start, size in INSIDE:
        blob, buffer = hear_bytes(), Buffer(size)
        mr = side.reg(buffer.address, size)
        side.operate("read", conn, mr, buffer.address, size, blob)
        settle(buffer.get, pattern(1, MIB)[start : start + size], "a range at offset %d" % start)
        buffer.put(pattern(start, size))
        side.operate("write", conn, mr, buffer.address, size, blob)
    say("over")
    return "%d ranges inside one registration" % len(INSIDE)


def serve_size_zero(side):
    conn = side.meet()
    buffer = Buffer(4096)
    buffer.put(pattern(1, 4096))
    side.offer(conn, buffer)
    hear()
    settle(buffer.get, pattern(1, 4096), "after a write of no bytes")


def drive_size_zero(side):
    conn = side.meet()
    blob, buffer = hear_bytes(), Buffer(4096)
    mr = side.reg(buffer.address, 4096)
    answers = []
    for name in ("read_async", "write_async"):
        is_refused = side.refused(name, conn, mr, buffer.address, 0, blob)
        answers.append("refused" if is_refused else "done")
    if buffer.get() != bytes(4096):
        raise Broken("a read of no bytes changed the buffer")
    side.operate("read", conn, mr, buffer.address, 4096, blob)
    settle(buffer.get, pattern(1, 4096), "a read after those of no bytes")
    say("over")
    return "read %s, write %s" % tuple(answers)


LARGE = (1 << 32) + 65537
# Where a size or an offset of 32 bits would be cut.
WINDOWS = [0, (1 << 31) - 100, (1 << 32) - 100, LARGE - 4096]


def enough_memory():
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    with open("/proc/meminfo") as file:
        lines = dict(line.split(":") for line in file)
    there = int(lines["MemAvailable"].split()[0]) * 1024
    if limit != resource.RLIM_INFINITY:
        there = min(there, limit)
    needed = 3 * LARGE
    if there < needed:
        raise NotSupported("%.1f GiB of memory are available, %.1f are needed" % (there / 2**30, needed / 2**30))


def serve_over_4_gb(side):
    enough_memory()
    conn = side.meet()
    buffer = Buffer(LARGE)
    for start in WINDOWS:
        buffer.map[buffer.start + start : buffer.start + start + 4096] = pattern(start, 4096)
    KEPT.append(buffer)
    mr = side.reg(buffer.address, LARGE)
    try:
        blob = side.advertise(conn, mr, buffer.address, LARGE)
    except Exception:
        blob = b""
    say(blob)
    hear()
    buffer.check_edges("where it was read")


def drive_over_4_gb(side):
    enough_memory()
    conn = side.meet()
    blob = hear_bytes()
    if not blob:
        say("over")
        return "refused by advertise"
    buffer = Buffer(LARGE)
    mr = side.reg(buffer.address, LARGE)
    if side.refused("read", conn, mr, buffer.address, LARGE, blob):
        say("over")
        return "refused"
    for start in WINDOWS:
        settle(lambda: buffer.get(start, 4096), pattern(start, 4096), "at byte %d" % start)
    buffer.check_edges("in the reader")
    say("over")
    return "%d bytes read" % LARGE


# Claims that the peer must not believe.


def serve_wrong_address(side):
    conn = side.meet()
    buffer = Buffer(MIB)
    buffer.put(pattern(1, MIB))
    # Registered, and not advertised.
    other = Buffer(MIB)
    other.put(pattern(2, MIB))
    KEPT.append((buffer, other, side.reg(other.address, MIB)))
    side.offer(conn, buffer)
    say(other.address)
    hear()
    if buffer.get() != pattern(1, MIB) or other.get() != pattern(2, MIB):
        raise Broken("memory that was not advertised was written to")
    say("intact")


def drive_wrong_address(side):
    conn = side.meet()
    blob, address = hear_bytes(), hear()
    buffer = Buffer(MIB)
    mr = side.reg(buffer.address, MIB)
    own = Buffer(4096)
    foreign = side.advertise(conn, side.reg(own.address, 4096), own.address, 4096)
    other = address.to_bytes(8, "little")
    tries = [
        ("another address", other + blob[8:], MIB),
        ("an address of no memory", bytes(7) + b"\x7f" + blob[8:], MIB),
        ("a blob of 63 bytes", blob[:63], MIB),
        ("a blob of zeros", bytes(64), 4096),
        ("a blob of the reader's own", foreign, 4096),
    ]
    for what, claim, size in tries:
        for name in ("read_async", "write_async"):
            if not side.refused(name, conn, mr, buffer.address, size, claim):
                raise Broken("%s with %s was done" % (name[:-6], what))
            if buffer.get() != bytes(MIB):
                raise Broken("a read with %s brought bytes" % what)
    say("over")
    hear()
    return "%d claims refused, each for read and write" % len(tries)


def serve_past_the_end(side):
    conn = side.meet()
    buffer = Buffer(65536)
    buffer.put(pattern(1, 65536))
    side.offer(conn, buffer)
    hear()
    buffer.check_edges("by a write of one byte more")
    say("intact")


def drive_past_the_end(side):
    conn = side.meet()
    blob, buffer = hear_bytes(), Buffer(65537)
    mr = side.reg(buffer.address, 65537)
    for name in ("read_async", "write_async"):
        if not side.refused(name, conn, mr, buffer.address, 65537, blob):
            raise Broken("a %s of 65537 bytes from a range of 65536 was done" % name[:-6])
    if buffer.get()[-1]:
        raise Broken("the byte after the range was read")
    say("over")
    if hear() != "intact":
        raise Broken("the byte after the range was written")
    return "one byte past the end is refused"


def serve_dereg_ends(side):
    side.has("dereg")
    conn = side.meet()
    buffer = Buffer(65536)
    buffer.put(pattern(1, 65536))
    mr = side.offer(conn, buffer)
    hear()
    side.dereg(mr)
    buffer.put(pattern(2, 65536))
    say("gone")
    hear()
    if buffer.get() != pattern(2, 65536):
        raise Broken("memory was written to after dereg")
    say("intact")


def drive_dereg_ends(side):
    conn = side.meet()
    blob, buffer = hear_bytes(), Buffer(65536)
    mr = side.reg(buffer.address, 65536)
    side.operate("read", conn, mr, buffer.address, 65536, blob)
    settle(buffer.get, pattern(1, 65536), "a read before dereg")
    say("read")
    hear()
    for name in ("read_async", "write_async"):
        if not side.refused(name, conn, mr, buffer.address, 65536, blob):
            raise Broken("a %s after dereg was done" % name[:-6])
    if buffer.get() != pattern(1, 65536):
        raise Broken("a read after dereg brought bytes")
    say("over")
    hear()
    return "the blob of a removed registration is refused"
