//! Every version's properties in the newest layout. What a version does not say
//! is what NCCL takes it to be: one buffer per receive, messages up to 1 GiB.
#![forbid(unsafe_code)]

use tcpx_abi::{MESSAGE_MAX, v4, v5, v6, v7, v8, v9, v10, v11, v12};

/// Copies fields that are called the same.
macro_rules! copy {
    ($from:ident => $into:ident: $($field:ident)+) => {
        $($into.$field = $from.$field;)+
    };
}

macro_rules! before_9 {
    ($version:ident: $($field:ident)*) => {
        pub(super) fn $version(from: &$version::Properties, into: &mut v12::Properties) {
            copy!(from => into: name pci_path guid ptr_support speed port max_comms $($field)*);
            into.max_p2p_bytes = MESSAGE_MAX;
            into.max_coll_bytes = MESSAGE_MAX / 2;
        }
    };
}

macro_rules! from_9 {
    ($version:ident: $($field:ident)*) => {
        pub(super) fn $version(from: &$version::Properties, into: &mut v12::Properties) {
            copy!(from => into: name pci_path guid ptr_support speed port max_comms latency max_recvs
                net_device_type net_device_version reg_is_global force_flush max_p2p_bytes max_coll_bytes $($field)*);
            into.v_props.ndevs = from.v_props.ndevs;
            let both = into.v_props.devs.iter_mut().zip(from.v_props.devs);
            both.for_each(|(place, device)| *place = device);
        }
    };
}

pub(super) fn v4(from: &v4::Properties, into: &mut v12::Properties) {
    copy!(from => into: name pci_path guid ptr_support speed port max_comms);
    into.max_recvs = 1;
    into.max_p2p_bytes = MESSAGE_MAX;
    into.max_coll_bytes = MESSAGE_MAX / 2;
}
before_9!(v5: latency max_recvs);
before_9!(v6: latency max_recvs);
before_9!(v7: latency max_recvs net_device_type net_device_version);
before_9!(v8: latency max_recvs net_device_type net_device_version reg_is_global);
from_9!(v9:);
from_9!(v10:);
from_9!(v11: max_multi_request_size);
from_9!(v12: max_multi_request_size rail_id plane_id);
