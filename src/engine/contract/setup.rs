//! Init, devices, and how a connection comes about.
#![forbid(unsafe_code)]

use super::Row;
use super::exchange::exchange;
use super::pair::Pair;
use super::subject::{Checked, Shortfall, Subject, owe, poll, watch};
use crate::plugin::{Device, PluginError};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tcpx_abi::{
    HANDLE_MAX, NET_DEVICE_HOST, NET_DEVICE_UNPACK, NET_DEVICE_UNPACK_VERSION, PTR_HOST,
};
use tcpx_words::plugin_family::PluginFamily;

pub(super) const ROWS: &[Row] = &[
    Row::any(
        "init-again",
        "a second init does not crash and leaves the first one usable",
        init_again,
    ),
    Row::any(
        "devices-stable",
        "there is a device, and the count does not change",
        devices_stable,
    ),
    Row::any(
        "properties-sane",
        "every device has a name, a speed, comms, receives and host pointers",
        properties_sane,
    ),
    Row::tcpx(
        "properties-tcpx",
        "unpack version 7, host and device pointers, one receive at a time",
        properties_tcpx,
    ),
    Row::any(
        "handles-differ",
        "every listener gives a handle of its own",
        handles_differ,
    ),
    Row::any(
        "listener-unused",
        "a listener that nobody connects to closes",
        listener_unused,
    ),
    Row::any(
        "accept-without-peer",
        "accept without a peer is rc 0 and no comm, not an error",
        accept_without_peer,
    ),
    Row::any(
        "connect-in-turns",
        "connect and accept, asked in turns, both answer, and no call blocks",
        connect_in_turns,
    ),
    Row::any(
        "connect-sixteen",
        "sixteen connections at once carry their own messages",
        connect_sixteen,
    ),
    Row::tcpx(
        "device-handle",
        "accept describes an unpack queue: type 1, version 7, 24 bytes",
        device_handle,
    ),
];

/// A call that takes longer blocks, whatever the machine is doing.
const CALL_MAX: Duration = Duration::from_secs(2);

fn init_again(subject: &Subject<'_>) -> Checked {
    let answer = match subject.net.init() {
        Ok(()) => "rc 0".to_owned(),
        Err(PluginError::Refused { code, said, .. }) => format!("rc {code} ({})", said.join(" / ")),
        Err(error) => return Err(error.into()),
    };
    let devices = subject.net.devices()?;
    owe(devices == subject.devices.len(), || {
        format!(
            "second init: {answer}; then {devices} devices instead of {}",
            subject.devices.len()
        )
    })?;
    let mut pair = Pair::on_host(subject, 1, 4096)?;
    exchange(&mut pair, &[4096], 1)?;
    pair.close()?;
    Ok(format!(
        "second init: {answer}; {devices} devices as before, a message still arrives"
    ))
}

fn devices_stable(subject: &Subject<'_>) -> Checked {
    let counts: BTreeSet<usize> = (0..100)
        .map(|_| subject.net.devices())
        .collect::<Result<_, _>>()?;
    owe(counts.len() == 1 && !counts.contains(&0), || {
        format!("100 calls counted {counts:?} devices")
    })?;
    Ok(format!(
        "{} devices in each of 100 calls",
        subject.devices.len()
    ))
}

fn properties_sane(subject: &Subject<'_>) -> Checked {
    let mut seen = Vec::new();
    for device in subject.devices {
        let again = subject.net.properties(device.index)?;
        let (first, second) = (named(device), named(&again));
        if let Some(((property, then), (_, now))) =
            first.iter().zip(&second).find(|(one, other)| one != other)
        {
            let device = device.index;
            return Err(Shortfall::Broken(format!(
                "device {device}: {property} is {then}, and {now} when asked again"
            )));
        }
        let printable =
            !device.name.is_empty() && device.name.chars().all(|letter| letter.is_ascii_graphic());
        owe(printable, || {
            format!("device {} is called {:?}", device.index, device.name)
        })?;
        let number = |property: &str, value: &dyn std::fmt::Display, sane: bool, owed: &str| {
            owe(sane, || {
                format!(
                    "device {}: {property} is {value}, and {owed} is owed",
                    device.name
                )
            })
        };
        number(
            "speed",
            &device.speed_mbps,
            device.speed_mbps > 0,
            "more than 0 Mbit/s",
        )?;
        number(
            "latency",
            &device.latency_us,
            device.latency_us.is_finite(),
            "a number",
        )?;
        number(
            "maxComms",
            &device.max_comms,
            device.max_comms > 0,
            "more than 0",
        )?;
        number(
            "maxRecvs",
            &device.max_recvs,
            device.max_recvs >= 1,
            "at least 1",
        )?;
        let pointers = device.ptr_support;
        number(
            "ptrSupport",
            &pointers,
            pointers >= 0 && pointers & PTR_HOST != 0,
            "a set with host pointers, 1,",
        )?;
        let (kind, known) = (device.net_device_type, [NET_DEVICE_HOST, NET_DEVICE_UNPACK]);
        number(
            "netDeviceType",
            &kind,
            known.contains(&kind),
            "0 (host) or 1 (unpack)",
        )?;
        seen.push(format!("{} {} Mbit/s", device.name, device.speed_mbps));
    }
    Ok(seen.join(", "))
}

/// Every property under its name in nccl_net.h.
fn named(device: &Device) -> [(&'static str, String); 13] {
    [
        ("name", format!("{:?}", device.name)),
        ("pciPath", format!("{:?}", device.pci_path)),
        ("guid", device.guid.to_string()),
        ("ptrSupport", device.ptr_support.to_string()),
        ("speed", device.speed_mbps.to_string()),
        ("port", device.port.to_string()),
        ("latency", device.latency_us.to_string()),
        ("maxComms", device.max_comms.to_string()),
        ("maxRecvs", device.max_recvs.to_string()),
        ("netDeviceType", device.net_device_type.to_string()),
        ("netDeviceVersion", device.net_device_version.to_string()),
        (
            "regIsGlobal, forceFlush",
            format!("{}, {}", device.reg_is_global, device.force_flush),
        ),
        ("maxP2pBytes", device.max_p2p_bytes.to_string()),
    ]
}

fn properties_tcpx(subject: &Subject<'_>) -> Checked {
    for device in subject.devices {
        let unpack = (device.net_device_type, device.net_device_version);
        owe(
            unpack == (NET_DEVICE_UNPACK, NET_DEVICE_UNPACK_VERSION),
            || format!("net device {unpack:?}"),
        )?;
        let numbers = (device.max_comms, device.max_recvs);
        owe(numbers == (65_536, 1), || {
            format!("maxComms, maxRecvs are {numbers:?}")
        })?;
        // A stand-in that takes no device memory says so.
        let pointers = if subject.family() == PluginFamily::Tcpx {
            &[3][..]
        } else {
            &[3, 1]
        };
        owe(pointers.contains(&device.ptr_support), || {
            format!("ptrSupport is {}", device.ptr_support)
        })?;
        let identity = (device.guid, device.port, device.latency_us);
        owe(identity == (device.index as u64, 0, 0.0), || {
            format!("guid, port, latency are {identity:?}")
        })?;
    }
    let pointers = subject.device()?.ptr_support;
    Ok(format!(
        "type 1 version 7, ptrSupport {pointers}, maxComms 65536, maxRecvs 1, guid is the index"
    ))
}

fn handles_differ(subject: &Subject<'_>) -> Checked {
    let device = subject.device()?.index;
    let mut listeners = Vec::new();
    for _ in 0..8 {
        listeners.push(subject.net.listen(device)?);
    }
    let differ: BTreeSet<[u8; HANDLE_MAX]> = listeners.iter().map(|(_, handle)| handle.0).collect();
    for (listener, _) in listeners {
        subject.net.close_listen(listener)?;
    }
    owe(differ.len() == 8, || {
        format!("8 listeners gave {} different handles", differ.len())
    })?;
    Ok("8 listeners, 8 different handles".into())
}

fn listener_unused(subject: &Subject<'_>) -> Checked {
    let device = subject.device()?.index;
    let started = Instant::now();
    for _ in 0..16 {
        let (listener, _) = subject.net.listen(device)?;
        subject.net.close_listen(listener)?;
    }
    owe(started.elapsed() < CALL_MAX, || {
        format!("16 listen and close took {:.1?}", started.elapsed())
    })?;
    Ok(format!("16 times, {:.1?}", started.elapsed()))
}

fn accept_without_peer(subject: &Subject<'_>) -> Checked {
    if !subject.net.calls().facts().asks_again {
        return Err(Shortfall::NotOwed(
            "v4 knows no \"call again\": accept waits for its peer".into(),
        ));
    }
    let mut pair = Pair::start(subject)?;
    let asked = watch(|| {
        let accepted = pair.step_accept()?;
        owe(!accepted, || {
            "accept gave a comm, and nobody had connected".into()
        })
    })?;
    // The listener is finished properly: closing one that waits is not owed.
    pair.finish_connect(subject)?;
    pair.close()?;
    Ok(format!(
        "rc 0 and no comm {asked} times, then a peer connected"
    ))
}

fn connect_in_turns(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::start(subject)?;
    let (started, mut calls, mut longest) = (Instant::now(), 0, Duration::ZERO);
    poll("connect and accept", subject.connect_patience(), || {
        let before = Instant::now();
        let connected = pair.step()?;
        longest = longest.max(before.elapsed());
        calls += 1;
        Ok(connected.then_some(()))
    })?;
    let took = started.elapsed();
    owe(longest < CALL_MAX, || {
        format!("one turn of connect and accept blocked for {longest:.1?}")
    })?;
    pair.close()?;
    Ok(format!(
        "after {calls} turns and {took:.1?}, the longest turn {longest:.1?}"
    ))
}

fn connect_sixteen(subject: &Subject<'_>) -> Checked {
    const CONNECTIONS: usize = 16;
    let started = Instant::now();
    let mut pairs = (0..CONNECTIONS)
        .map(|_| Pair::start(subject))
        .collect::<Checked<Vec<_>>>()?;
    poll("sixteen connections", subject.connect_patience(), || {
        let mut standing = 0;
        for pair in &mut pairs {
            standing += usize::from(pair.step()?);
        }
        Ok((standing == CONNECTIONS).then_some(()))
    })?;
    let took = started.elapsed();
    for (number, pair) in pairs.iter_mut().enumerate() {
        pair.allocate(crate::gpu::HostMemory::host(), CONNECTIONS, 64 << 10)?;
        // Message k goes over connection k only; sizes differ as well.
        pair.receive(number, 64 << 10)?;
        pair.send(number, 4096 * (number + 1))?;
    }
    for (number, pair) in pairs.iter_mut().enumerate() {
        pair.finish()?;
        pair.verify(number, 4096 * (number + 1))?;
        pair.hand_back()?;
    }
    pairs.into_iter().try_for_each(Pair::close)?;
    Ok(format!(
        "16 in {took:.1?}, each message over its own connection"
    ))
}

fn device_handle(subject: &Subject<'_>) -> Checked {
    let pair = Pair::connect(subject)?;
    let handle = pair.receiver()?.device_handle().copied();
    let handle = handle.ok_or_else(|| Shortfall::Broken("accept kept no device handle".into()))?;
    let numbers = (
        handle.net_device_type,
        handle.net_device_version,
        handle.size,
    );
    owe(
        numbers == (NET_DEVICE_UNPACK, NET_DEVICE_UNPACK_VERSION, 24),
        || format!("type, version, size: {numbers:?}"),
    )?;
    owe(!handle.handle.is_null(), || "its pointer is null".into())?;
    owe(handle.needs_proxy_progress == 1, || {
        format!("needsProxyProgress {}", handle.needs_proxy_progress)
    })?;
    pair.close()?;
    Ok("type 1, version 7, 24 bytes, needsProxyProgress 1".into())
}
