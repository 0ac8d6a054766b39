//! The Rust transcription against what a C compiler makes of the headers.

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;
use tcpx_abi::{v4, v5, v6, v7, v8, v9, v10, v11, v12};

fn from_c() -> BTreeMap<String, usize> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("layout/layout.c");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("layout");
    let built = Command::new("cc").arg("-o").arg(&program).arg(&source).status().expect("a C compiler");
    assert!(built.success(), "layout.c does not compile");
    let printed = Command::new(&program).output().expect("layout runs").stdout;
    String::from_utf8(printed)
        .expect("text")
        .lines()
        .map(|line| {
            let (name, value) = line.split_once(' ').expect("two words");
            (name.to_owned(), value.parse().expect("a number"))
        })
        .collect()
}

macro_rules! rust_layout {
    ($name:literal, $type:ty, $($member:ident => $field:ident),+ $(,)?) => {{
        let mut rows = vec![($name.to_owned(), size_of::<$type>())];
        $(rows.push((concat!($name, ".", stringify!($member)).to_owned(), offset_of!($type, $field)));)+
        rows
    }};
}

macro_rules! net_layout {
    ($name:literal, $type:ty $(, $member:ident => $field:ident)*) => {
        rust_layout!($name, $type, name => name, init => init, devices => devices, getProperties => get_properties,
            listen => listen, connect => connect, accept => accept, regMr => reg_mr, deregMr => dereg_mr,
            isend => isend, irecv => irecv, iflush => iflush, test => test, closeSend => close_send,
            closeRecv => close_recv, closeListen => close_listen $(, $member => $field)*)
    };
}

macro_rules! net_layout_from_7 {
    ($name:literal, $type:ty $(, $member:ident => $field:ident)*) => {
        net_layout!($name, $type, regMrDmaBuf => reg_mr_dma_buf, getDeviceMr => get_device_mr,
            irecvConsumed => irecv_consumed $(, $member => $field)*)
    };
}

macro_rules! properties_layout {
    ($name:literal, $type:ty $(, $member:ident => $field:ident)*) => {
        rust_layout!($name, $type, name => name, pciPath => pci_path, guid => guid, ptrSupport => ptr_support,
            speed => speed, port => port, maxComms => max_comms $(, $member => $field)*)
    };
}

macro_rules! properties_layout_from_7 {
    ($name:literal, $type:ty $(, $member:ident => $field:ident)*) => {
        properties_layout!($name, $type, latency => latency, maxRecvs => max_recvs,
            netDeviceType => net_device_type, netDeviceVersion => net_device_version $(, $member => $field)*)
    };
}

macro_rules! properties_layout_from_9 {
    ($name:literal, $type:ty $(, $member:ident => $field:ident)*) => {
        properties_layout_from_7!($name, $type, regIsGlobal => reg_is_global, forceFlush => force_flush,
            vProps => v_props, maxP2pBytes => max_p2p_bytes, maxCollBytes => max_coll_bytes
            $(, $member => $field)*)
    };
}

/// What is one type in C is one per version here; all must be laid out alike.
macro_rules! same_layout {
    ($first:expr $(, $other:expr)+) => {{
        let first = $first;
        $(assert_eq!(first, $other);)+
        first
    }};
}

fn tables() -> Vec<(String, usize)> {
    let mut rust = net_layout!("Net4", v4::Net);
    rust.extend(net_layout!("Net5", v5::Net));
    rust.extend(net_layout!("Net6", v6::Net, regMrDmaBuf => reg_mr_dma_buf));
    rust.extend(net_layout_from_7!("Net7", v7::Net));
    rust.extend(net_layout_from_7!("Net8", v8::Net));
    rust.extend(net_layout_from_7!("Net9", v9::Net, makeVDevice => make_v_device));
    rust.extend(net_layout_from_7!("Net10", v10::Net, makeVDevice => make_v_device));
    rust.extend(net_layout_from_7!("Net11", v11::Net, makeVDevice => make_v_device, finalize => finalize,
        setNetAttr => set_net_attr));
    rust.extend(net_layout_from_7!("Net12", v12::Net, makeVDevice => make_v_device, finalize => finalize,
        setNetAttr => set_net_attr));
    rust
}

fn properties() -> Vec<(String, usize)> {
    let mut rust = properties_layout!("Properties4", v4::Properties);
    rust.extend(same_layout!(
        properties_layout!("Properties6", v5::Properties, latency => latency, maxRecvs => max_recvs),
        properties_layout!("Properties6", v6::Properties, latency => latency, maxRecvs => max_recvs)
    ));
    rust.extend(properties_layout_from_7!("Properties7", v7::Properties));
    rust.extend(properties_layout_from_7!("Properties8", v8::Properties, regIsGlobal => reg_is_global));
    rust.extend(same_layout!(
        properties_layout_from_9!("Properties9", v9::Properties),
        properties_layout_from_9!("Properties9", v10::Properties)
    ));
    rust.extend(properties_layout_from_9!("Properties11", v11::Properties,
        maxMultiRequestSize => max_multi_request_size));
    rust.extend(properties_layout_from_9!("Properties12", v12::Properties,
        maxMultiRequestSize => max_multi_request_size, railId => rail_id, planeId => plane_id));
    rust
}

macro_rules! vdevice {
    ($name:literal, $type:ty) => {
        rust_layout!($name, $type, ndevs => ndevs, devs => devs)
    };
}

macro_rules! config {
    ($type:ty) => {
        rust_layout!("CommConfig", $type, trafficClass => traffic_class)
    };
}

macro_rules! attributes {
    ($comm:ty, $net:ty) => {{
        let mut rows = rust_layout!("CommAttr", $comm, maxConcurrentPeers => max_concurrent_peers,
            minConcurrentPeers => min_concurrent_peers, maxFlowsPerPeer => max_flows_per_peer,
            minFlowsPerPeer => min_flows_per_peer);
        rows.extend(rust_layout!("NetAttr", $net, sendCommAttr => send_comm_attr, recvCommAttr => recv_comm_attr,
            op => op, algo => algo, proto => proto));
        rows
    }};
}

#[test]
fn rust_and_c_lay_out_every_struct_alike() {
    let mut rust: BTreeMap<String, usize> = tables().into_iter().chain(properties()).collect();
    rust.extend(rust_layout!("DeviceHandle", v7::DeviceHandle, netDeviceType => net_device_type,
        netDeviceVersion => net_device_version, handle => handle, size => size,
        needsProxyProgress => needs_proxy_progress));
    rust.extend(same_layout!(
        vdevice!("VDeviceProps9", v9::VDeviceProps),
        vdevice!("VDeviceProps9", v10::VDeviceProps),
        vdevice!("VDeviceProps9", v11::VDeviceProps)
    ));
    rust.extend(vdevice!("VDeviceProps12", v12::VDeviceProps));
    rust.extend(same_layout!(config!(v10::CommConfig), config!(v11::CommConfig), config!(v12::CommConfig)));
    rust.extend(same_layout!(attributes!(v11::CommAttr, v11::NetAttr), attributes!(v12::CommAttr, v12::NetAttr)));
    assert_eq!(rust, from_c());
}
