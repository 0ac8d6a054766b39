//! listen, connect and accept: valid, invalid and hostile use.

use super::pair::*;
use crate::calls;
use crate::failed::{BROKEN, REFUSED};
use crate::wire::{HANDLE_BYTES, Handle, Hello, Purpose, TOKEN};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ptr;
use std::time::{Duration, Instant};
use tcpx_abi::HANDLE_MAX;

fn decoded(handle: &[u8; HANDLE_MAX]) -> Handle {
    Handle::decode(handle[..HANDLE_BYTES].try_into().unwrap()).unwrap()
}

#[test]
fn the_handle_leaves_the_rest_of_the_buffer_alone_and_the_token_zero() {
    let (listener, handle) = listen(plugin(&[("NCCL_NSOCKS_PERTHREAD", "4")]));
    assert_eq!(handle[HANDLE_BYTES..], [0xee; HANDLE_MAX - HANDLE_BYTES]);
    assert_eq!(handle[TOKEN], [0; 8]);
    assert_eq!(decoded(&handle).sockets, 4);
    let (other, second) = listen(plugin(&[]));
    assert_ne!(decoded(&second).nonce, decoded(&handle).nonce);
    calls::unlisten(listener).unwrap();
    calls::unlisten(other).unwrap();
}

#[test]
fn connect_and_accept_return_call_again_until_the_peer_arrives() {
    let plugin = plugin(&[]);
    let (listener, mut handle) = listen(plugin);
    let mut device = no_device();
    assert_eq!(accept(listener, &mut device), Ok(ptr::null_mut()));
    assert_eq!(connect(plugin, &mut handle), Ok(ptr::null_mut()));
    assert_ne!(
        handle[TOKEN], [0; 8],
        "connect keeps its state in the handle"
    );
    assert_eq!(device.handle, ptr::null_mut());
    let receiver = until("accept", || {
        connect(plugin, &mut handle).unwrap();
        Some(accept(listener, &mut device).unwrap()).filter(|comm| !comm.is_null())
    });
    assert_eq!((device.net_device_type, device.net_device_version), (1, 7));
    assert_eq!((device.size, device.needs_proxy_progress), (24, 1));
    calls::close(receiver).unwrap();
    calls::unlisten(listener).unwrap();
}

#[test]
fn a_blocking_connect_returns_with_the_comm() {
    let plugin = plugin(&[("TCPXSOFT_CONNECT", "blocking")]);
    let (listener, mut handle) = listen(plugin);
    let listener = listener as usize;
    let accepting = std::thread::spawn(move || {
        let mut device = no_device();
        let comm = until("accept", || {
            Some(accept(listener as *mut _, &mut device).unwrap()).filter(|comm| !comm.is_null())
        });
        comm as usize
    });
    let sender = connect(plugin, &mut handle).unwrap();
    assert!(!sender.is_null());
    let receiver = accepting.join().unwrap();
    calls::close(sender).unwrap();
    calls::close(receiver as *mut _).unwrap();
    calls::unlisten(listener as *mut _).unwrap();
}

#[test]
fn a_handle_buffer_serves_one_connect_and_a_listener_one_accept() {
    let plugin = plugin(&[]);
    let (listener, mut handle) = listen(plugin);
    let mut device = no_device();
    let (sender, receiver) = meet(plugin, &mut handle, || accept(listener, &mut device));
    assert_eq!(connect(plugin, &mut handle), Err(REFUSED));
    logged("connect with a handle that was used before");
    assert_eq!(accept(listener, &mut device), Err(REFUSED));
    logged("accept on a listen comm that was used before");
    calls::unlisten(listener).unwrap();
    assert_eq!(accept(listener, &mut device), Err(REFUSED));
    assert_eq!(calls::unlisten(listener), Err(REFUSED));
    calls::close(sender).unwrap();
    calls::close(receiver).unwrap();
}

#[test]
fn accept_without_a_device_handle_serves_host_receives() {
    let plugin = plugin(&[]);
    let (listener, mut handle) = listen(plugin);
    let (sender, receiver) = meet(plugin, &mut handle, || {
        // SAFETY: null is allowed.
        unsafe { calls::accept_on(listener, ptr::null_mut()) }
    });
    let pair = Pair {
        sender,
        receiver,
        device: no_device(),
    };
    let (source, target) = (Buffer::new(10, 1), Buffer::new(10, 0));
    pair.finish(
        pair.isend(source.pointer(), 10).unwrap(),
        pair.irecv(target.pointer(), 10).unwrap(),
    );
    assert_eq!(target.bytes(10), [1; 10]);
    pair.close();
    calls::unlisten(listener).unwrap();
}

#[test]
fn an_invalid_handle_is_refused_at_once() {
    let plugin = plugin(&[]);
    for fill in [0, 0xff, 2] {
        assert_eq!(connect(plugin, &mut [fill; HANDLE_MAX]), Err(REFUSED));
    }
    logged("NET/TCPXSoft : connect with a");
}

#[test]
fn other_connections_do_not_disturb_an_accept() {
    let plugin = plugin(&[]);
    let (listener, mut handle) = listen(plugin);
    let (ctrl, data) = (decoded(&handle).ctrl, decoded(&handle).data);
    let wrong = Hello {
        purpose: Purpose::Ctrl,
        index: 1,
        nonce: [1; 16],
        session: [2; 8],
    };
    let mut strangers = Vec::new();
    for (number, address) in [ctrl, data].into_iter().cycle().take(60).enumerate() {
        let mut stranger = TcpStream::connect(address).unwrap();
        match number % 4 {
            0 => {}
            1 => stranger.write_all(&wrong.encode()).unwrap(),
            2 => stranger
                .write_all(b"GET / HTTP/1.1\r\nHost: example.invalid\r\n\r\n\r\n\r\n")
                .unwrap(),
            _ => stranger.write_all(&wrong.encode()[..10]).unwrap(),
        }
        strangers.push(stranger);
    }
    let mut device = no_device();
    let (sender, receiver) = meet(plugin, &mut handle, || accept(listener, &mut device));
    let pair = Pair {
        sender,
        receiver,
        device,
    };
    let buffer = Buffer::new(64, 0);
    pair.finish(
        pair.isend(buffer.pointer(), 64).unwrap(),
        pair.irecv(buffer.pointer(), 64).unwrap(),
    );
    pair.close();
    for mut stranger in strangers {
        stranger.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(
            matches!(stranger.read(&mut [0; 8]), Ok(0) | Err(_)),
            "a stranger was answered"
        );
    }
    calls::unlisten(listener).unwrap();
}

#[test]
fn a_hello_that_a_lossy_network_delays_by_seconds_is_answered() {
    let (listener, handle) = listen(plugin(&[]));
    let late = TcpStream::connect(decoded(&handle).ctrl).unwrap();
    let hello = Hello {
        purpose: Purpose::Ctrl,
        index: decoded(&handle).sockets,
        nonce: decoded(&handle).nonce,
        session: [2; 8],
    };
    let mut device = no_device();
    let mut answer = |until: Duration| {
        let (began, mut state) = (Instant::now(), [0; 4]);
        late.set_read_timeout(Some(Duration::from_millis(1)))
            .unwrap();
        while began.elapsed() < until {
            assert_eq!(accept(listener, &mut device), Ok(ptr::null_mut()));
            if let Ok(count) = (&late).read(&mut state) {
                return Some(count);
            }
        }
        None
    };
    // A SYN and the first segment may each be sent again twice.
    assert_eq!(answer(Duration::from_secs(7)), None, "it was closed");
    (&late).write_all(&hello.encode()).unwrap();
    assert_eq!(answer(PATIENCE), Some(4));
    calls::unlisten(listener).unwrap();
}

#[test]
fn a_second_connector_with_the_same_handle_is_refused() {
    let plugin = plugin(&[]);
    let (listener, handle) = listen(plugin);
    let mut handles = [handle, handle];
    let mut device = no_device();
    let mut outcomes = [None, None];
    let receiver = until("one of them", || {
        for (handle, outcome) in handles.iter_mut().zip(&mut outcomes) {
            if outcome.is_none() {
                *outcome =
                    Some(connect(plugin, handle)).filter(|made| *made != Ok(ptr::null_mut()));
            }
        }
        Some(accept(listener, &mut device).unwrap()).filter(|comm| !comm.is_null())
    });
    let second = until("the other", || {
        let second = outcomes
            .iter()
            .position(|outcome| !matches!(outcome, Some(Ok(_))))?;
        outcomes[second] = outcomes[second].or(Some(connect(plugin, &mut handles[second])));
        if outcomes[second] == Some(Ok(ptr::null_mut())) {
            outcomes[second] = None;
            // Accept has finished, but the listener still has its backlog.
            calls::unlisten(listener).ok();
        }
        outcomes[second]
    });
    assert_eq!(second, Err(BROKEN));
    for sender in outcomes.into_iter().flatten().flatten() {
        calls::close(sender).unwrap();
    }
    calls::close(receiver).unwrap();
    calls::unlisten(listener).ok();
}

#[test]
fn a_peer_that_leaves_while_connecting_is_an_error_on_both_sides() {
    let plugin = plugin(&[]);
    let (listener, mut handle) = listen(plugin);
    assert_eq!(connect(plugin, &mut handle), Ok(ptr::null_mut()));
    calls::unlisten(listener).unwrap();
    assert_eq!(
        until("the loss", || connect(plugin, &mut handle).err()),
        BROKEN
    );

    let (listener, handle) = listen(plugin);
    let mut peer = TcpStream::connect(decoded(&handle).ctrl).unwrap();
    let hello = Hello {
        purpose: Purpose::Ctrl,
        index: 1,
        nonce: decoded(&handle).nonce,
        session: [2; 8],
    };
    peer.write_all(&hello.encode()).unwrap();
    let mut device = no_device();
    peer.set_read_timeout(Some(Duration::from_millis(1)))
        .unwrap();
    until("the acceptor's state", || {
        assert_eq!(accept(listener, &mut device), Ok(ptr::null_mut()));
        peer.read_exact(&mut [0; 4]).ok()
    });
    drop(peer);
    assert_eq!(
        until("the loss", || accept(listener, &mut device).err()),
        BROKEN
    );
    assert_eq!(
        accept(listener, &mut device),
        Err(REFUSED),
        "a failed listener is used up, too"
    );
    calls::unlisten(listener).unwrap();
}

#[test]
fn a_refused_connection_is_retried() {
    let plugin = plugin(&[]);
    let (listener, mut handle) = listen(plugin);
    let address = decoded(&handle).ctrl;
    calls::unlisten(listener).unwrap();
    for _ in 0..50 {
        assert_eq!(connect(plugin, &mut handle), Ok(ptr::null_mut()));
    }
    // The test now listens on the port, so the connection is established.
    let Ok(late) = TcpListener::bind(address) else {
        return;
    };
    late.set_nonblocking(true).unwrap();
    let (mut stream, _) = until("the connection", || {
        assert_eq!(connect(plugin, &mut handle), Ok(ptr::null_mut()));
        late.accept().ok()
    });
    stream.set_nonblocking(false).unwrap();
    let mut hello = [0; 40];
    until("the hello", || {
        assert_eq!(connect(plugin, &mut handle), Ok(ptr::null_mut()));
        stream.peek(&mut hello).ok().filter(|count| *count == 40)
    });
    stream.read_exact(&mut hello).unwrap();
    assert!(Hello::decode(&hello, &decoded(&handle).nonce).is_ok());
}

#[test]
fn the_real_plugin_s_waits_can_be_enabled() {
    let settings = [
        ("TCPXSOFT_WAITS", "real"),
        (
            "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS",
            "150000",
        ),
    ];
    let start = std::time::Instant::now();
    Pair::new(&settings).close();
    // Two sockets of 100 ms each, then the acceptor's wait.
    assert!(start.elapsed() >= Duration::from_millis(350));
}

#[test]
fn zero_attempts_make_no_connection() {
    let plugin = plugin(&[("NCCL_GPUDIRECTTCPX_CONNECTION_RETRY", "0")]);
    let (listener, mut handle) = listen(plugin);
    assert_eq!(connect(plugin, &mut handle), Err(REFUSED));
    logged("NET/TCPXSoft failed to connect socket");
    assert_eq!(accept(listener, &mut no_device()), Err(REFUSED));
    logged("NET/TCPXSoft failed accept socket");
    calls::unlisten(listener).unwrap();
}

#[test]
fn nine_threads_leave_no_socket_and_only_empty_messages_pass() {
    let pair = Pair::new(&[("NCCL_SOCKET_NTHREADS", "9")]);
    let buffer = Buffer::new(64, 0);
    pair.finish(
        pair.isend(buffer.pointer(), 0).unwrap(),
        pair.irecv(buffer.pointer(), 64).unwrap(),
    );
    let send = pair.isend(buffer.pointer(), 1).unwrap();
    for _ in 0..100 {
        assert_eq!(test(send), Ok(false));
    }
    pair.close();
}

#[test]
fn the_configured_congestion_control_is_used_on_both_sides() {
    let pair = Pair::new(&[("TCPXSOFT_CONGESTION", "reno")]);
    for comm in [pair.sender, pair.receiver] {
        // SAFETY: our comm.
        let comm = unsafe { crate::block::comm(comm) }.unwrap();
        assert_eq!(
            crate::socket::congestion_of(&comm.lanes.all[0].stream).unwrap(),
            "reno"
        );
    }
    pair.close();
}

#[test]
fn ipv6_and_a_control_interface_work_where_the_machine_has_them() {
    let ctrl = plugin(&[("TCPXSOFT_CTRL_DEV", "lo")]);
    let (listener, handle) = listen(ctrl);
    assert!(decoded(&handle).redirect_ctrl);
    calls::unlisten(listener).unwrap();
    Pair::between(ctrl, ctrl).close();
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let family = [("NCCL_GPUDIRECTTCPX_SOCKET_FAMILY", "AF_INET6")];
    let pair = Pair::new(&family);
    let buffer = Buffer::new(64, 0);
    pair.finish(
        pair.isend(buffer.pointer(), 64).unwrap(),
        pair.irecv(buffer.pointer(), 64).unwrap(),
    );
    pair.close();
    let (listener, mut handle) = listen(plugin(&family));
    assert_eq!(
        connect(plugin(&[]), &mut handle),
        Err(REFUSED),
        "one address family cannot reach the other"
    );
    calls::unlisten(listener).unwrap();
}
