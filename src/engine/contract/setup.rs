//! Initialisation, devices, and setting up connections.
#![forbid(unsafe_code)]

use super::ContractCheck;
use super::exchange::exchange;
use super::pair::Pair;
use super::subject::{Checked, Pace, Shortfall, Subject, owe, poll, watch};
use crate::plugin::{Device, PluginError};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tcpx_abi::{
    HANDLE_MAX, NET_DEVICE_HOST, NET_DEVICE_UNPACK, NET_DEVICE_UNPACK_VERSION, PTR_HOST,
};
use tcpx_words::plugin_family::PluginFamily;

pub(super) const ROWS: &[ContractCheck] = &[
    ContractCheck::any(
        "init-again",
        "a second init does not crash, and the plugin stays usable",
        init_again,
    ),
    ContractCheck::any(
        "devices-stable",
        "there is at least one device, and the count does not change",
        devices_stable,
    ),
    ContractCheck::any(
        "properties-sane",
        "every device has a name and plausible properties that do not change",
        properties_sane,
    ),
    ContractCheck::tcpx(
        "properties-tcpx",
        "netDevice UNPACK version 7, host and CUDA pointers, maxRecvs 1",
        properties_tcpx,
    ),
    ContractCheck::any(
        "handles-differ",
        "every listener returns a different handle",
        handles_differ,
    ),
    ContractCheck::any(
        "listener-unused",
        "a listener without a connection can be closed",
        listener_unused,
    ),
    ContractCheck::any(
        "accept-without-peer",
        "accept without a peer is rc 0 with a null comm",
        accept_without_peer,
    ),
    ContractCheck::any(
        "connect-in-turns",
        "connect and accept, called alternately, both succeed, and no call blocks",
        connect_in_turns,
    ),
    ContractCheck::any(
        "connect-sixteen",
        "16 connections at once each carry their own messages",
        connect_sixteen,
    ),
    ContractCheck::tcpx(
        "device-handle",
        "accept fills in a device handle of type 1, version 7, 24 bytes",
        device_handle,
    ),
];

/// A call that takes longer, on the clock of `Pace`, counts as blocking.
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
            "second init: {answer}; afterwards {devices} devices instead of {}",
            subject.devices.len()
        )
    })?;
    let mut pair = Pair::on_host(subject, 1, 4096)?;
    exchange(&mut pair, &[4096], 1)?;
    pair.close()?;
    Ok(format!(
        "second init: {answer}; still {devices} devices, and a message still arrives"
    ))
}

fn devices_stable(subject: &Subject<'_>) -> Checked {
    let counts: BTreeSet<usize> = (0..100)
        .map(|_| subject.net.devices())
        .collect::<Result<_, _>>()?;
    owe(counts.len() == 1 && !counts.contains(&0), || {
        format!("100 calls of devices returned {counts:?}")
    })?;
    Ok(format!(
        "{} devices in all 100 calls",
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
                "device {device}: {property} is {then} at first, {now} when read again"
            )));
        }
        name_sane(device)?;
        let number = |property: &str, value: &dyn std::fmt::Display, sane: bool, owed: &str| {
            owe(sane, || {
                format!(
                    "device {}: {property} is {value}, expected {owed}",
                    device.name
                )
            })
        };
        // A speed of 0 or less is unknown; NCCL takes 10 Gbit/s then.
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

fn name_sane(device: &Device) -> Result<(), Shortfall> {
    let strings = [("name", &device.unnamed), ("pciPath", &device.unpathed)];
    for (property, given) in strings {
        if let Some(given) = given {
            // `xmlFindTagKv` and `xmlSetAttr` of graph/xml.cc compare and copy the name unchecked, and
            // `ncclTopoGetSubsystem` the path.
            return Err(Shortfall::Broken(format!(
                "the {property} of device {} is {given}: NCCL reads it as a string and crashes",
                device.index
            )));
        }
    }
    let printable =
        !device.name.is_empty() && device.name.chars().all(|letter| letter.is_ascii_graphic());
    owe(printable, || {
        format!("device {} has the name {:?}", device.index, device.name)
    })
}

/// The properties of a device by their names in nccl_net.h.
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
            || format!("netDeviceType, netDeviceVersion are {unpack:?}"),
        )?;
        let numbers = (device.max_comms, device.max_recvs);
        owe(numbers == (65_536, 1), || {
            format!("maxComms, maxRecvs are {numbers:?}")
        })?;
        // A software plugin without device memory reports host pointers only.
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
        format!("8 listeners returned {} different handles", differ.len())
    })?;
    Ok("8 listeners, 8 different handles".into())
}

fn listener_unused(subject: &Subject<'_>) -> Checked {
    let device = subject.device()?.index;
    let (started, pace) = (Instant::now(), Pace::start());
    for _ in 0..16 {
        let (listener, _) = subject.net.listen(device)?;
        subject.net.close_listen(listener)?;
    }
    let (took, worked) = (started.elapsed(), pace.elapsed());
    owe(worked < CALL_MAX, || {
        format!("listen and closeListen 16 times took {worked:.1?}")
    })?;
    Ok(format!("listen and closeListen 16 times in {took:.1?}"))
}

fn accept_without_peer(subject: &Subject<'_>) -> Checked {
    if !subject.net.calls().limits().asks_again {
        return Err(Shortfall::NotOwed(
            "v4 has no \"call again\": accept waits for its peer".into(),
        ));
    }
    let mut pair = Pair::start(subject)?;
    let asked = watch(|| {
        let accepted = pair.step_accept()?;
        owe(!accepted, || {
            "accept returned a comm although no peer had connected".into()
        })
    })?;
    // Connect the listener before closing it: closing one that is waiting need not work.
    pair.finish_connect(subject)?;
    pair.close()?;
    Ok(format!(
        "{asked} calls rc 0 with a null comm, then a peer connected"
    ))
}

fn connect_in_turns(subject: &Subject<'_>) -> Checked {
    let mut pair = Pair::start(subject)?;
    let (started, pace) = (Instant::now(), Pace::start());
    let (mut calls, mut longest) = (0, Duration::ZERO);
    poll("connect and accept", subject.connect_patience(), || {
        let before = pace.elapsed();
        let connected = pair.step()?;
        longest = longest.max(pace.elapsed() - before);
        calls += 1;
        Ok(connected.then_some(()))
    })?;
    let took = started.elapsed();
    owe(longest < CALL_MAX, || {
        format!("connect and accept blocked for {longest:.1?}")
    })?;
    pair.close()?;
    Ok(format!(
        "connected after {calls} calls of each in {took:.1?}, the longest taking {longest:.1?}"
    ))
}

fn connect_sixteen(subject: &Subject<'_>) -> Checked {
    const CONNECTIONS: usize = 16;
    let started = Instant::now();
    let mut pairs = (0..CONNECTIONS)
        .map(|_| Pair::start(subject))
        .collect::<Checked<Vec<_>>>()?;
    // They share this process's CPUs, so together they may take longer than one.
    let limit = 3 * subject.connect_patience();
    poll("sixteen connections", limit, || {
        let mut standing = 0;
        for pair in &mut pairs {
            standing += usize::from(pair.step()?);
        }
        Ok((standing == CONNECTIONS).then_some(()))
    })?;
    let took = started.elapsed();
    for (number, pair) in pairs.iter_mut().enumerate() {
        pair.allocate(crate::gpu::HostMemory::host(), CONNECTIONS, 64 << 10)?;
        // Connection k carries message k, and all sizes differ.
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
        "16 connections in {took:.1?}, each message over its own connection"
    ))
}

fn device_handle(subject: &Subject<'_>) -> Checked {
    let pair = Pair::connect(subject)?;
    let handle = pair.receiver()?.device_handle().copied();
    let handle = handle
        .ok_or_else(|| Shortfall::Broken("accept did not fill in the device handle".into()))?;
    let numbers = (
        handle.net_device_type,
        handle.net_device_version,
        handle.size,
    );
    owe(
        numbers == (NET_DEVICE_UNPACK, NET_DEVICE_UNPACK_VERSION, 24),
        || format!("type, version, size are {numbers:?}"),
    )?;
    owe(!handle.handle.is_null(), || {
        "the device handle's pointer is null".into()
    })?;
    owe(handle.needs_proxy_progress == 1, || {
        format!("needsProxyProgress is {}", handle.needs_proxy_progress)
    })?;
    pair.close()?;
    Ok("type 1, version 7, 24 bytes, needsProxyProgress 1".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_a_name_is_told_as_such() {
        let nameless = Device {
            index: 0,
            name: "device 0".into(),
            unnamed: Some("NULL".into()),
            pci_path: None,
            unpathed: None,
            guid: 0,
            ptr_support: PTR_HOST,
            speed_mbps: 0,
            port: 0,
            latency_us: 0.0,
            max_comms: 1,
            max_recvs: 1,
            net_device_type: NET_DEVICE_HOST,
            net_device_version: 0,
            reg_is_global: false,
            force_flush: false,
            max_p2p_bytes: 0,
        };
        let told = |device: &Device| match name_sane(device) {
            Err(Shortfall::Broken(why)) => why,
            _ => String::new(),
        };
        let why = "the name of device 0 is NULL: NCCL reads it as a string and crashes";
        assert_eq!(told(&nameless), why);
        let named = Device {
            name: "eth1".into(),
            unnamed: None,
            ..nameless
        };
        assert_eq!(told(&named), "");
    }
}
