//! Compares the Rust transcription with the layout that a C compiler computes for the headers.

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

fn from_c() -> BTreeMap<String, usize> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("layout/layout.c");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("layout");
    let built = Command::new("cc")
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .status()
        .expect("a C compiler");
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

/// A field's name in the C headers.
fn in_c(field: &str) -> String {
    let mut words = field.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (letter, rest) = word.split_at(1);
        name + &letter.to_uppercase() + rest
    })
}

macro_rules! rows {
    ($rows:ident $abi:ident $number:literal $type:ident($($field:ident)*)) => {
        let name = concat!(stringify!($type), stringify!($number));
        $rows.push((name.to_owned(), size_of::<$abi::$type>()));
        $($rows.push((format!("{name}.{}", in_c(stringify!($field))), offset_of!($abi::$type, $field)));)*
    };
}

/// The structs of a version, with the version number in their names as in `layout.c`.
macro_rules! version_layout {
    ($v:ident $variant:ident $number:literal $symbol:ident properties($($property:ident)*)
     widths($reg:ty, $size:ty) init($init:ident) context($($context:ident)?) config($($config:ident)?)
     device($($device:ident)?) tag($($tag:ident)?) phandle($($phandle:ident)?) receive($($receive:ident)+)
     members(($($dma:ident)?) ($($device_mr:ident)?) ($($consumed:ident)?) ($($merge:ident)?)
     ($($finalize:ident)?) ($($attributes:ident)?)) $($more:tt)*) => {
        fn $v(rows: &mut Vec<(String, usize)>) {
            use tcpx_abi::$v as abi;
            rows!(rows abi $number Net(name init devices get_properties listen connect accept reg_mr dereg_mr isend irecv
                iflush test close_send close_recv close_listen
                $($dma)? $($device_mr)? $($consumed)? $($merge)? $($finalize)? $($attributes)?));
            rows!(rows abi $number Properties(name pci_path guid ptr_support speed port max_comms $($property)*));
            $(where_there_is!($device {
                rows!(rows abi $number DeviceHandle(net_device_type net_device_version handle size needs_proxy_progress));
            });)?
            $(where_there_is!($merge { rows!(rows abi $number VDeviceProps(ndevs devs)); });)?
            $(where_there_is!($config { rows!(rows abi $number CommConfig(traffic_class)); });)?
            $(where_there_is!($context { rows!(rows abi $number CommConfig(traffic_class)); });)?
            $(where_there_is!($attributes {
                rows!(rows abi $number CommAttr(max_concurrent_peers min_concurrent_peers max_flows_per_peer
                    min_flows_per_peer));
                rows!(rows abi $number NetAttr(send_comm_attr recv_comm_attr op algo proto));
            });)?
        }
    };
}

macro_rules! where_there_is {
    ($name:ident $rows:block) => {
        $rows
    };
}

tcpx_abi::for_each_version!(version_layout);

#[test]
fn rust_and_c_have_the_same_layout_of_every_struct() {
    let mut rust = Vec::new();
    macro_rules! each {
        ($(($v:ident $variant:ident $number:literal $symbol:ident))+) => {
            $($v(&mut rust);)+
        };
    }
    tcpx_abi::with_versions!(each);
    assert_eq!(rust.into_iter().collect::<BTreeMap<_, _>>(), from_c());
}
