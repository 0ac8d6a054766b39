//! Converts every version's properties to the newest layout. Properties that a version lacks
//! get NCCL's defaults: one buffer per receive, messages up to 1 GiB.
#![forbid(unsafe_code)]

use tcpx_abi::{MESSAGE_MAX, newest};

macro_rules! copy {
    // As many physical devices as both layouts can hold.
    ($from:ident => $into:ident: v_props) => {
        $into.v_props.ndevs = $from.v_props.ndevs;
        for (place, device) in $into.v_props.devs.iter_mut().zip($from.v_props.devs) {
            *place = device;
        }
    };
    ($from:ident => $into:ident: $field:ident) => {
        $into.$field = $from.$field;
    };
}

macro_rules! convert {
    ($v:ident $variant:ident $number:literal $symbol:ident properties($($property:ident)*)
     $($calls:tt)*) => {
        pub(super) fn $v(from: &tcpx_abi::$v::Properties, into: &mut newest::Properties) {
            into.max_recvs = 1;
            into.max_p2p_bytes = MESSAGE_MAX;
            into.max_coll_bytes = MESSAGE_MAX / 2;
            into.name = from.name;
            into.pci_path = from.pci_path;
            into.guid = from.guid;
            into.ptr_support = from.ptr_support;
            into.speed = from.speed;
            into.port = from.port;
            into.max_comms = from.max_comms;
            $(copy!(from => into: $property);)*
        }
    };
}
tcpx_abi::for_each_version!(convert);
