//! The Rust transcription against what a C compiler makes of the headers.

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;
use tcpx_abi::{v7, v8};

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
    ($name:literal, $type:ty) => {
        rust_layout!($name, $type, name => name, init => init, devices => devices, getProperties => get_properties,
            listen => listen, connect => connect, accept => accept, regMr => reg_mr, regMrDmaBuf => reg_mr_dma_buf,
            deregMr => dereg_mr, isend => isend, irecv => irecv, iflush => iflush, test => test,
            closeSend => close_send, closeRecv => close_recv, closeListen => close_listen,
            getDeviceMr => get_device_mr, irecvConsumed => irecv_consumed)
    };
}

#[test]
fn rust_and_c_lay_out_every_struct_alike() {
    let mut rust: BTreeMap<String, usize> = BTreeMap::new();
    rust.extend(rust_layout!("DeviceHandle", v7::DeviceHandle, netDeviceType => net_device_type,
        netDeviceVersion => net_device_version, handle => handle, size => size,
        needsProxyProgress => needs_proxy_progress));
    rust.extend(rust_layout!("Properties7", v7::Properties, name => name, pciPath => pci_path, guid => guid,
        ptrSupport => ptr_support, speed => speed, port => port, latency => latency, maxComms => max_comms,
        maxRecvs => max_recvs, netDeviceType => net_device_type, netDeviceVersion => net_device_version));
    rust.extend(rust_layout!("Properties8", v8::Properties, name => name, pciPath => pci_path, guid => guid,
        ptrSupport => ptr_support, regIsGlobal => reg_is_global, speed => speed, port => port, latency => latency,
        maxComms => max_comms, maxRecvs => max_recvs, netDeviceType => net_device_type,
        netDeviceVersion => net_device_version));
    rust.extend(net_layout!("Net7", v7::Net));
    rust.extend(net_layout!("Net8", v8::Net));
    assert_eq!(rust, from_c());
}
