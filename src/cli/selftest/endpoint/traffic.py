"""Rows about several operations, connections and lives of memory. See side.py."""

# Several at once.


def serve_two_connections(side):
    conns = [side.meet(), side.accept()]
    for seed, conn in enumerate(conns):
        buffer = Buffer(MIB)
        buffer.put(pattern(seed, MIB))
        KEPT.append(buffer)
        side.offer(conn, buffer)
    hear()


def drive_two_connections(side):
    metadata = hear_bytes()
    one, two = side.connect(metadata), side.connect(metadata)
    if one == two:
        raise Broken("both connections have the number %r" % (one,))
    blobs = [hear_bytes(), hear_bytes()]
    parts = [Buffer(MIB), Buffer(MIB)]
    mrs = [side.reg(part.address, MIB) for part in parts]
    # Both ranges over both connections at once.
    for conns in ((one, two), (two, one)):
        begun = [
            side.begin("read_async", conn, mr, part.address, MIB, blob)
            for conn, mr, part, blob in zip(conns, mrs, parts, blobs)
        ]
        for transfer in begun:
            side.finish(transfer)
        for seed, part in enumerate(parts):
            settle(part.get, pattern(seed, MIB), "connection %d" % seed)
            part.put(bytes(MIB))
    say("over")
    return "4 reads of 1 MiB"


def serve_vectors(side):
    conn = side.meet()
    for seed, size in enumerate(VECTOR):
        buffer = Buffer(size)
        buffer.put(pattern(seed, size))
        KEPT.append(buffer)
        side.offer(conn, buffer)
    hear()
    for seed, (buffer, size) in enumerate(zip(KEPT, VECTOR)):
        settle(buffer.get, pattern(100 + seed, size), "piece %d of a vector that was written" % seed)
        buffer.check_edges("around piece %d" % seed)


VECTOR = [4096, 1, 65536, 100_000, 8192, 3]


def drive_vectors(side):
    side.has("readv", "writev")
    conn = side.meet()
    blobs = [hear_bytes() for _ in VECTOR]
    parts = [Buffer(size) for size in VECTOR]
    mrs = [side.reg(part.address, part.size) for part in parts]
    arguments = conn, mrs, [part.address for part in parts], VECTOR, blobs, len(VECTOR)
    side.operate("readv", *arguments)
    for seed, part in enumerate(parts):
        settle(part.get, pattern(seed, part.size), "piece %d of a vector" % seed)
        part.check_edges("around piece %d" % seed)
        part.put(pattern(100 + seed, part.size))
    if hasattr(side.endpoint, "writev_async"):
        side.finish(side.begin("writev_async", *arguments))
    else:
        side.operate("writev", *arguments)
    say("over")
    return "%d pieces, %d bytes" % (len(VECTOR), sum(VECTOR))


def serve_many_in_flight(side):
    conn = side.meet()
    buffer = Buffer(4096)
    buffer.put(pattern(1, 4096))
    side.offer(conn, buffer)
    hear()


def drive_many_in_flight(side):
    conn, count = side.meet(), 256
    blob, buffer = hear_bytes(), Buffer(4096 * count)
    mr = side.reg(buffer.address, buffer.size)
    begun = [
        side.begin("read_async", conn, mr, buffer.address + 4096 * at, 4096, blob) for at in range(count)
    ]
    for at in reversed(range(count)):
        side.finish(begun[at], "read %d of %d in flight" % (at + 1, count))
    settle(buffer.get, pattern(1, 4096) * count, "%d reads in flight" % count)
    say("over")
    return "%d reads in flight" % count


def serve_order(side):
    conn = side.meet()
    buffer = Buffer(MIB)
    side.offer(conn, buffer)
    hear()
    settle(buffer.get, pattern(15, MIB), "after 16 writes to one range")


def drive_order(side):
    conn = side.meet()
    blob, buffer = hear_bytes(), Buffer(MIB)
    mr = side.reg(buffer.address, MIB)
    back = Buffer(MIB)
    back_mr = side.reg(back.address, MIB)
    for seed in range(16):
        buffer.put(pattern(seed, MIB))
        side.operate("write", conn, mr, buffer.address, MIB, blob)
        side.operate("read", conn, back_mr, back.address, MIB, blob)
        settle(back.get, pattern(seed, MIB), "a read after write %d" % seed)
    say("over")
    return "16 writes, each read after it was done"


def serve_send_receive(side):
    side.has("send_async", "recv_async")
    conn = side.meet()
    parts = [Buffer(size) for size in VECTOR]
    mrs = [side.reg(part.address, part.size) for part in parts]
    if hear() != "ready":
        return
    begun = [side.begin("recv_async", conn, mr, part.address, part.size) for mr, part in zip(mrs, parts)]
    say("posted")
    for transfer in begun:
        side.finish(transfer, "a receive")
    for seed, part in enumerate(parts):
        settle(part.get, pattern(seed, part.size), "receive %d" % seed)
        part.check_edges("around receive %d" % seed)
    say("over")


def drive_send_receive(side):
    side.has("send_async", "recv_async")
    conn = side.meet()
    parts = [Buffer(size) for size in VECTOR]
    for seed, part in enumerate(parts):
        part.put(pattern(seed, part.size))
    mrs = [side.reg(part.address, part.size) for part in parts]
    say("ready")
    hear()
    begun = [side.begin("send_async", conn, mr, part.address, part.size) for mr, part in zip(mrs, parts)]
    for transfer in begun:
        side.finish(transfer, "a send")
    hear()
    return "%d sends met their receives in order" % len(VECTOR)


# Ends.


def serve_removal(side):
    side.has("dereg")
    conn = side.meet()
    buffer = Buffer(8 * MIB)
    mr = side.offer(conn, buffer)
    hear()
    side.dereg(mr)
    # From here on the memory is this program's alone.
    buffer.put(bytes([0x5A]) * buffer.size)
    time.sleep(0.3)
    if buffer.get() != bytes([0x5A]) * buffer.size:
        raise Broken("memory was written to after dereg had returned")
    say("intact")
    hear()


def drive_removal(side):
    conn = side.meet()
    blob, buffer = hear_bytes(), Buffer(8 * MIB)
    buffer.put(pattern(1, buffer.size))
    mr = side.reg(buffer.address, buffer.size)
    begun = [side.begin("write_async", conn, mr, buffer.address, buffer.size, blob) for _ in range(16)]
    say("in flight")
    ended = 0
    for transfer in begun:
        until = time.monotonic() + side.patience
        while True:
            ok, done = side.endpoint.poll_async(transfer)
            if done or not ok:
                ended += 1 if done else 0
                break
            if time.monotonic() > until:
                raise Broken("a write to memory that was removed neither failed nor was done after %g s" % side.patience)
    if hear() != "intact":
        raise Broken("memory was written to after dereg had returned")
    say("over")
    return "%d of 16 writes were done, the others failed" % ended


def serve_peer_killed(side):
    conn = side.meet()
    buffer = Buffer(8 * MIB)
    buffer.put(pattern(1, buffer.size))
    KEPT.append(buffer)
    side.offer(conn, buffer)
    hear()


def drive_peer_killed(side):
    conn = side.meet()
    blob, size, count = hear_bytes(), 8 * MIB, 24
    parts = [Buffer(size) for _ in range(count)]
    mrs = [side.reg(part.address, size) for part in parts]
    begun = [side.begin("read_async", conn, mr, part.address, size, blob) for mr, part in zip(mrs, parts)]
    side.finish(begun[0])
    tell(kill_peer=True)
    done_count = 1
    until = time.monotonic() + side.patience
    for part, transfer in list(zip(parts, begun))[1:]:
        ok, done = True, False
        while ok and not done:
            ok, done = side.endpoint.poll_async(transfer)
            if time.monotonic() > until:
                raise Broken("a read from a process that was killed was neither done nor failed after %g s" % side.patience)
        if ok:
            done_count += 1
            settle(part.get, pattern(1, size), "a read that was done before the peer was killed")
    if done_count == count:
        # All were done before the process was dead, so one more is asked for.
        if not side.refused("read_async", conn, mrs[0], parts[0].address, size, blob):
            raise Broken("a read from a process that was killed was done")
    return "%d of %d reads were done, the others failed" % (done_count, count)


# Registrations and descriptors.


def serve_registration_reuse(side):
    side.has("dereg")
    conn = side.meet()
    buffer = Buffer(65536)
    buffer.put(pattern(1, 65536))
    first = side.reg(buffer.address, 65536)
    second = side.reg(buffer.address, 65536)
    side.dereg(first)
    say(side.advertise(conn, second, buffer.address, 65536))
    hear()
    side.dereg(second)
    # The same addresses with other bytes.
    buffer.put(pattern(2, 65536))
    side.offer(conn, buffer)
    hear()


def drive_registration_reuse(side):
    conn = side.meet()
    buffer = Buffer(65536)
    for seed in (1, 2):
        mr = side.reg(buffer.address, 65536)
        blob = hear_bytes()
        side.operate("read", conn, mr, buffer.address, 65536, blob)
        settle(buffer.get, pattern(seed, 65536), "registration %d of one range" % seed)
        side.dereg(mr)
        say("read")
    return "a range registered three times"


def serve_descriptors(side):
    side.has("remove_remote_endpoint")
    metadata = side.metadata()
    say(metadata)
    for _ in range(CYCLES):
        side.accept()
        say("accepted")
    hear()


CYCLES = 24


def drive_descriptors(side):
    side.has("remove_remote_endpoint")
    metadata = hear_bytes()
    before = 0
    for cycle in range(CYCLES):
        conn = side.connect(metadata)
        hear()
        if side.endpoint.remove_remote_endpoint(conn) is not True:
            raise Broken("remove_remote_endpoint returned no True" + side.words())
        if cycle == 3:
            before = descriptors()
    until = time.monotonic() + SETTLED
    while descriptors() > before + 1 and time.monotonic() < until:
        time.sleep(0.02)
    after = descriptors()
    if after > before + 1:
        raise Broken("%d connections ended and left %d descriptors" % (CYCLES - 4, after - before))
    say("over")
    return "%d connections, %d descriptors before and %d after" % (CYCLES, before, after)


def serve_notifications(side):
    side.has("get_notifs")
    side.meet()
    heard = []
    until = time.monotonic() + side.patience
    while len(heard) < NOTES and time.monotonic() < until:
        heard += [bytes(message) for _, message in side.endpoint.get_notifs()]
        time.sleep(0.001)
    say([len(heard), heard == [b"note %d" % at for at in range(NOTES)]])
    hear()


NOTES = 200


def drive_notifications(side):
    side.has("send_notif")
    conn = side.meet()
    for at in range(NOTES):
        side.operate("send_notif", conn, b"note %d" % at)
    count, is_same = hear()
    if count != NOTES:
        raise Broken("%d of %d notifications arrived" % (count, NOTES))
    if not is_same:
        raise Broken("%d notifications arrived in another order or with other bytes" % NOTES)
    say("over")
    return "%d notifications in order" % NOTES
