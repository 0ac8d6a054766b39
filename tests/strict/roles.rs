//! The calls that a child process makes. A role prints `role finished` if every call returned;
//! otherwise the way the process ended is the result.

use crate::driver::{NO_DEVICE_HANDLE, Pair, Plugin, Raw, poll_until};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use tcpx_abi::{PTR_CUDA, level, logger};

/// One page of memory, aligned to a page.
#[repr(align(4096))]
struct Page([u8; 4096]);

static WARNINGS: AtomicU64 = AtomicU64::new(0);
/// Maximum number of printed log lines; further lines are only counted.
const SHOWN: u64 = 20;
/// Number of polls after which no more progress is expected.
const POLLS: usize = 20_000;

/// Runs the role with this name.
pub(crate) fn play(role: &str, library: &Path) {
    let plugin = Plugin::load(library);
    // The test runner has begun a line on stdout.
    println!("\nentering init");
    let code = plugin.init(logger::install(show));
    println!("init {code}");
    if code != 0 {
        return;
    }
    println!("devices {}", plugin.devices());
    match role {
        "init" => {}
        "properties" => properties(plugin),
        "transfer" => transfer(plugin),
        "window" => window(plugin),
        "second-accept" => second_accept(plugin),
        "null-device-handle" => null_device_handle(plugin),
        "reused-handle" => reused_handle(plugin),
        "peer-closed" => peer_closed(plugin),
        "send-to-closed" => send_to_closed(plugin),
        "cuda-registration" => cuda_registration(plugin),
        "whole-message" => whole_message(plugin),
        "stuck-message" => stuck_message(plugin),
        "poll" => poll(plugin),
        "close" => close(plugin),
        other => panic!("no role {other}"),
    }
    println!("warnings {}", WARNINGS.load(Ordering::Relaxed));
    println!("role finished");
}

fn show(line: logger::Line<'_>) {
    if line.level == level::WARN && WARNINGS.fetch_add(1, Ordering::Relaxed) < SHOWN {
        println!("WARN {}", String::from_utf8_lossy(line.text));
    }
}

fn properties(plugin: Plugin) {
    let found = plugin.properties(0);
    let text = format!("{} {} {}", found.ptr_support, found.speed, found.max_recvs);
    println!(
        "{text} {} {}",
        found.net_device_type, found.net_device_version
    );
    println!(
        "name {} path {}",
        !found.name.is_null(),
        !found.pci_path.is_null()
    );
}

/// Moves messages of many sizes, in windows of up to sixteen, and compares every byte.
fn transfer(plugin: Plugin) {
    let pair = plugin.pair();
    println!(
        "device handle {} {}",
        pair.device.net_device_type, pair.device.net_device_version
    );
    let sizes = [0, 1, 4095, 65_536, 65_537, 300_000, 1_000_003];
    let messages: Vec<usize> = sizes.into_iter().cycle().take(sizes.len() * 16).collect();
    for window in messages.chunks(16) {
        let total: usize = window.iter().sum();
        let mut sent: Vec<u8> = (0..total)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8)
            .collect();
        let mut received = vec![0; total];
        move_window(plugin, &pair, window, &mut sent, &mut received);
        assert!(sent == received, "payload differs");
    }
    plugin.close(pair);
}

fn move_window(
    plugin: Plugin,
    pair: &Pair,
    window: &[usize],
    sent: &mut [u8],
    received: &mut [u8],
) {
    let send_mr = plugin.register_host(pair.sender, sent);
    let receive_mr = plugin.register_host(pair.receiver, received);
    let (mut left, mut right) = (sent, received);
    let mut posted = Vec::new();
    for size in window {
        let (one, rest) = left.split_at_mut(*size);
        let (other, other_rest) = right.split_at_mut(*size);
        (left, right) = (rest, other_rest);
        let (code, send) = plugin.send(pair.sender, one, send_mr);
        assert_eq!(code, 0, "isend");
        let (code, receive) = plugin.receive(pair.receiver, other, receive_mr);
        assert_eq!(code, 0, "irecv");
        posted.push((send, receive, *size));
    }
    for (send, receive, size) in posted {
        plugin.finish(send, receive);
        assert_eq!(plugin.flushed_size(pair.receiver, receive), size as i32);
        assert_eq!(plugin.consume(pair.receiver, receive), 0);
    }
    plugin.deregister(pair.sender, send_mr);
    plugin.deregister(pair.receiver, receive_mr);
}

/// Posts a seventeenth request, tests the second request first, and consumes out of order.
fn window(plugin: Plugin) {
    let pair = plugin.pair();
    let (mut from, mut to) = (vec![1; 64], vec![0; 64]);
    let send_mr = plugin.register_host(pair.sender, &mut from);
    let receive_mr = plugin.register_host(pair.receiver, &mut to);
    let receives: Vec<Raw> = (0..16)
        .map(|_| plugin.receive(pair.receiver, &mut to, receive_mr).1)
        .collect();
    println!(
        "17th receive {}",
        plugin.receive(pair.receiver, &mut to, receive_mr).0
    );
    println!(
        "consume before done {}",
        plugin.consume(pair.receiver, receives[0])
    );
    for receive in &receives[..2] {
        let (_, send) = plugin.send(pair.sender, &mut from, send_mr);
        plugin.finish(send, *receive);
    }
    println!(
        "done but not consumed, 17th receive {}",
        plugin.receive(pair.receiver, &mut to, receive_mr).0
    );
    println!(
        "consume the second first {}",
        plugin.consume(pair.receiver, receives[1])
    );
    println!(
        "consume in order {} {}",
        plugin.consume(pair.receiver, receives[0]),
        plugin.consume(pair.receiver, receives[1])
    );
    println!(
        "17th receive now {}",
        plugin.receive(pair.receiver, &mut to, receive_mr).0
    );
    // Once one message has begun to arrive, the plugin refuses a test of a younger receive.
    let (_, send) = plugin.send(pair.sender, &mut from, send_mr);
    poll_until(|| plugin.test(send).1);
    let mut code = 0;
    poll_until(|| {
        code = plugin.test(receives[3]).0;
        code != 0
    });
    println!("test the second in line {code}");
    plugin.deregister(pair.sender, send_mr);
    plugin.deregister(pair.receiver, receive_mr);
    plugin.close(pair);
}

fn second_accept(plugin: Plugin) {
    let pair = plugin.pair();
    let mut device = NO_DEVICE_HANDLE;
    println!(
        "second accept {}",
        plugin.accept(pair.listener, &raw mut device).0
    );
    plugin.close(pair);
}

fn null_device_handle(plugin: Plugin) {
    let (listener, mut handle) = plugin.listen();
    let (mut code, mut sender): (_, Raw) = (0, ptr::null_mut());
    poll_until(|| {
        if sender.is_null() {
            sender = plugin.connect(&mut handle).1;
        }
        let (answer, receiver) = plugin.accept(listener, ptr::null_mut());
        code = answer;
        assert!(receiver.is_null());
        code != 0
    });
    println!("accept without a device handle {code}");
}

fn reused_handle(plugin: Plugin) {
    let mut pair = plugin.pair();
    println!(
        "private state {}",
        pair.handle[80..88].iter().any(|byte| *byte != 0)
    );
    println!("connect again {}", plugin.connect(&mut pair.handle).0);
    plugin.close(pair);
}

/// The sender closes after its last byte.
fn peer_closed(plugin: Plugin) {
    let pair = plugin.pair();
    let (mut from, mut to) = (vec![9; 5000], vec![0; 5000]);
    let send_mr = plugin.register_host(pair.sender, &mut from);
    let receive_mr = plugin.register_host(pair.receiver, &mut to);
    let (_, send) = plugin.send(pair.sender, &mut from, send_mr);
    poll_until(|| plugin.test(send).1);
    assert_eq!(plugin.close_send(pair.sender), 0);
    let (_, receive) = plugin.receive(pair.receiver, &mut to, receive_mr);
    let mut codes = Vec::new();
    poll_until(|| {
        let (code, done, size) = plugin.test(receive);
        codes.push(code);
        if done {
            println!("size {size}");
        }
        done
    });
    println!(
        "refusals {}",
        codes.iter().filter(|code| **code == 2).count()
    );
    println!("arrived {}", to == from);
    assert_eq!(plugin.consume(pair.receiver, receive), 0);
    let (_, receive) = plugin.receive(pair.receiver, &mut to, receive_mr);
    println!("after the end {}", plugin.test(receive).0);
    assert_eq!(plugin.close_receive(pair.receiver), 0);
}

fn send_to_closed(plugin: Plugin) {
    let pair = plugin.pair();
    let mut from = vec![1; 64];
    let send_mr = plugin.register_host(pair.sender, &mut from);
    assert_eq!(plugin.close_receive(pair.receiver), 0);
    let mut code = 0;
    poll_until(|| {
        let (posted, send) = plugin.send(pair.sender, &mut from, send_mr);
        code = if posted == 0 {
            plugin.test(send).0
        } else {
            posted
        };
        code != 0
    });
    println!("send to a closed peer {code}");
}

fn cuda_registration(plugin: Plugin) {
    let pair = plugin.pair();
    let is_open = || rustix::fs::fstat(std::io::stdin()).is_ok();
    println!("fd 0 open {}", is_open());
    let mut page = Box::new(Page([0; 4096]));
    println!(
        "aligned {}",
        plugin.register(pair.sender, &mut page.0, PTR_CUDA).0
    );
    println!(
        "not aligned {}",
        plugin.register(pair.sender, &mut page.0[1..], PTR_CUDA).0
    );
    println!("fd 0 open now {}", is_open());
}

/// One message of three chunks, polled until it has arrived.
fn whole_message(plugin: Plugin) {
    one_message(plugin, |step| poll_until(step));
    println!("received");
}

/// One message of three chunks, polled until no more progress is expected.
fn stuck_message(plugin: Plugin) {
    one_message(plugin, |step| {
        let received = (0..POLLS).any(|_| {
            std::thread::yield_now();
            step()
        });
        println!("received {received}");
    });
}

fn one_message(plugin: Plugin, poll: impl FnOnce(&mut dyn FnMut() -> bool)) {
    let pair = plugin.pair();
    let (mut from, mut to) = (vec![5; 190_000], vec![0; 190_000]);
    let send_mr = plugin.register_host(pair.sender, &mut from);
    let receive_mr = plugin.register_host(pair.receiver, &mut to);
    let (_, send) = plugin.send(pair.sender, &mut from, send_mr);
    let (_, receive) = plugin.receive(pair.receiver, &mut to, receive_mr);
    let mut sent = false;
    poll(&mut || {
        let (send_code, send_done, _) = if sent {
            (0, true, 0)
        } else {
            plugin.test(send)
        };
        let (receive_code, received, _) = plugin.test(receive);
        assert_eq!((send_code, receive_code), (0, 0));
        sent = send_done;
        received
    });
}

fn poll(plugin: Plugin) {
    let pair = plugin.pair();
    let mut to = vec![0; 64];
    let receive_mr = plugin.register_host(pair.receiver, &mut to);
    let (_, receive) = plugin.receive(pair.receiver, &mut to, receive_mr);
    for _ in 0..10 {
        assert_eq!(plugin.test(receive), (0, false, -7));
    }
}

fn close(plugin: Plugin) {
    let pair = plugin.pair();
    println!("closing");
    plugin.close(pair);
}
