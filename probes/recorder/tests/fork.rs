//! A forked child writes nothing into its parent's file, and gets its own file with its first
//! set-up call.
#![expect(unsafe_code, reason = "forks")]

use tcpx_recorder::format::{Call, EventKind, Role};
use tcpx_recorder::{Addresses, LogLine, Note, Opening, Options, Reader, Recorder, Settled, list};

const OPENING: Opening = Opening {
    role: Role::Recv,
    device: 0,
    comm: 0x1000,
    retires_consumed: true,
    addresses: Addresses {
        local: None,
        peer: None,
        ctrl: None,
    },
};

/// Runs `work` in a forked child and returns its result.
fn in_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `work`, which allocates, as the C library allows after
    // its own fork, and leaves without exit handlers.
    match unsafe { libc::fork() } {
        0 => {
            let worked =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(false);
            // SAFETY: does not return.
            unsafe { libc::_exit(i32::from(!worked)) }
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` is ours to write.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            status == 0
        }
    }
}

#[test]
fn a_forked_child_leaves_its_parents_file_alone_and_gets_its_own() {
    let parent = tempfile::tempdir().unwrap();
    let recorder = Recorder::create_in(
        parent.path(),
        &Options {
            capacity: 4,
            ..Options::new("fork")
        },
    )
    .unwrap();
    let key = recorder.open(&OPENING).unwrap();
    let slot = recorder.slot(key).unwrap();
    let post = |slot: &tcpx_recorder::Slot, index| {
        let at_ns = slot.post(10, recorder.now_ns());
        recorder.event(
            index,
            slot,
            at_ns,
            &Note::request(EventKind::Posted, Call::Irecv, 0, 10),
        );
    };
    post(slot, key.index);
    let file = recorder.path();
    assert_eq!(recorder.settle(), Settled::Here);

    let worked = in_child(|| {
        let line = LogLine {
            level: 3,
            flags: 0,
            function: b"",
            line: 0,
            text: b"from the child",
        };
        // Before it settles, no channel is known and nothing is written.
        assert!(recorder.slot(key).is_none() && recorder.open(&OPENING).is_none());
        post(slot, key.index);
        recorder.log(&line);
        assert_eq!(recorder.settle(), Settled::Moved);
        assert_eq!(recorder.settle(), Settled::Here);
        recorder.log(&line);
        let key = recorder.open(&OPENING).unwrap();
        let slot = recorder.slot(key).unwrap();
        (0..5).for_each(|_| post(slot, key.index));
        recorder.path() != file
    });
    assert!(worked);

    let mut reader = Reader::open(&file).unwrap();
    let own = reader.snapshot().unwrap();
    assert_eq!(
        (
            own.channels.len(),
            own.channels[0].posted,
            own.header.log_lines
        ),
        (1, 1, 0)
    );
    assert_eq!(
        reader.events(&own.channels[0], 100).unwrap().events.len(),
        2
    );
    post(slot, key.index);
    assert_eq!(reader.snapshot().unwrap().channels[0].posted, 2);

    let theirs = list(parent.path())
        .unwrap()
        .into_iter()
        .map(|one| one.path)
        .find(|path| *path != file)
        .unwrap();
    let mut reader = Reader::open(&theirs).unwrap();
    let child = reader.snapshot().unwrap();
    assert_ne!(child.header.writer.pid, std::process::id());
    assert_eq!((child.channels[0].posted, child.header.log_lines), (5, 1));
    assert_eq!(
        reader.events(&child.channels[0], 100).unwrap().events.len(),
        6
    );
}
