//! Every version of the ncclNet table: the one list, newest first, and one file each.
//!
//! Only this file names all versions. Code for all versions is generated with one of two macros,
//! which call the macro that they are given:
//!
//! * [`with_versions!`] once, with `(v7 V7 7 ncclNetPlugin_v7)` for each version: its
//!   module here, a name for an enum's variant, its number, and its symbol;
//! * [`for_each_version!`] once per version, with the same four and the version's shape.
//!
//! A shape describes the calls and members in which versions differ; everything else is the same
//! since v4. A name in parentheses is an argument or a member that the version has:
//!
//! | part | meaning |
//! |---|---|
//! | `properties` | fields of `Properties` that came after v4 |
//! | `widths` | types of `regMr`'s size, and of the sizes of `isend` and `irecv` |
//! | `init` | `logger`; `profiled`: also a profiler; `context`: also a context, an id and a configuration |
//! | `context`, `config`, `device` | in `listen` and `connect`; in `connect`; in `connect` and `accept` |
//! | `tag`, `phandle` | in `isend` |
//! | `receive` | `single`, or `grouped`, with or without `phandles` |
//! | `members` | members of the table that came after v4 |
//!
//! Not here: the tables. Each version's file has its complete table, and code generated from a
//! shape compiles only if the shape agrees with it.

pub mod v10;
pub mod v11;
pub mod v12;
pub mod v4;
pub mod v5;
pub mod v6;
pub mod v7;
pub mod v8;
pub mod v9;

/// The list.
#[doc(hidden)]
#[macro_export]
macro_rules! __versions {
    ($how:ident $callback:ident) => {
        $crate::__call_with_versions! { $how $callback
            (v12 V12 12 ncclNetPlugin_v12 {
                properties(latency max_recvs net_device_type net_device_version reg_is_global force_flush
                    v_props max_p2p_bytes max_coll_bytes max_multi_request_size rail_id plane_id)
                widths(usize, usize) init(context) context(context) config() device(device)
                tag(tag) phandle(phandle) receive(grouped phandles)
                members((reg_mr_dma_buf) (get_device_mr) (irecv_consumed) (make_v_device)
                    (finalize) (set_net_attr))
            })
            (v11 V11 11 ncclNetPlugin_v11 {
                properties(latency max_recvs net_device_type net_device_version reg_is_global force_flush
                    v_props max_p2p_bytes max_coll_bytes max_multi_request_size)
                widths(usize, usize) init(context) context(context) config() device(device)
                tag(tag) phandle(phandle) receive(grouped phandles)
                members((reg_mr_dma_buf) (get_device_mr) (irecv_consumed) (make_v_device)
                    (finalize) (set_net_attr))
            })
            (v10 V10 10 ncclNetPlugin_v10 {
                properties(latency max_recvs net_device_type net_device_version reg_is_global force_flush
                    v_props max_p2p_bytes max_coll_bytes)
                widths(usize, usize) init(profiled) context() config(config) device(device)
                tag(tag) phandle(phandle) receive(grouped phandles)
                members((reg_mr_dma_buf) (get_device_mr) (irecv_consumed) (make_v_device) () ())
            })
            (v9 V9 9 ncclNetPlugin_v9 {
                properties(latency max_recvs net_device_type net_device_version reg_is_global force_flush
                    v_props max_p2p_bytes max_coll_bytes)
                widths(usize, usize) init(logger) context() config() device(device)
                tag(tag) phandle() receive(grouped)
                members((reg_mr_dma_buf) (get_device_mr) (irecv_consumed) (make_v_device) () ())
            })
            (v8 V8 8 ncclNetPlugin_v8 {
                properties(latency max_recvs net_device_type net_device_version reg_is_global)
                widths(usize, c_int) init(logger) context() config() device(device)
                tag(tag) phandle() receive(grouped)
                members((reg_mr_dma_buf) (get_device_mr) (irecv_consumed) () () ())
            })
            (v7 V7 7 ncclNetPlugin_v7 {
                properties(latency max_recvs net_device_type net_device_version)
                widths(c_int, c_int) init(logger) context() config() device(device)
                tag(tag) phandle() receive(grouped)
                members((reg_mr_dma_buf) (get_device_mr) (irecv_consumed) () () ())
            })
            (v6 V6 6 ncclNetPlugin_v6 {
                properties(latency max_recvs)
                widths(c_int, c_int) init(logger) context() config() device()
                tag(tag) phandle() receive(grouped)
                members((reg_mr_dma_buf) () () () () ())
            })
            (v5 V5 5 ncclNetPlugin_v5 {
                properties(latency max_recvs)
                widths(c_int, c_int) init(logger) context() config() device()
                tag(tag) phandle() receive(grouped)
                members(() () () () () ())
            })
            (v4 V4 4 ncclNetPlugin_v4 {
                properties()
                widths(c_int, c_int) init(logger) context() config() device()
                tag() phandle() receive(single)
                members(() () () () () ())
            })
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __call_with_versions {
    (once $callback:ident $(($v:ident $variant:ident $number:literal $symbol:ident {$($shape:tt)*}))+) => {
        $callback! { $(($v $variant $number $symbol))+ }
    };
    (each $callback:ident $(($v:ident $variant:ident $number:literal $symbol:ident {$($shape:tt)*}))+) => {
        $($callback! { $v $variant $number $symbol $($shape)* })+
    };
}

/// Calls a macro once, with every version.
#[macro_export]
macro_rules! with_versions {
    ($callback:ident) => {
        $crate::__versions! { once $callback }
    };
}

/// Calls a macro for each version, with its shape.
#[macro_export]
macro_rules! for_each_version {
    ($callback:ident) => {
        $crate::__versions! { each $callback }
    };
}

macro_rules! last {
    ($v:ident) => {
        stringify!($v)
    };
    ($v:ident $($more:ident)+) => {
        last!($($more)+)
    };
}

macro_rules! about_all {
    (($newest:ident $variant:ident $number:literal $symbol:ident)
     $(($v:ident $variants:ident $numbers:literal $symbols:ident))+) => {
        /// The newest version, whose structs can express everything that older ones can.
        pub use $newest as newest;

        /// Every version, newest first, which is the order in which NCCL looks them up. No NCCL
        /// looks up both v4 and v7.
        pub const VERSIONS: [u32; [$number, $($numbers),+].len()] = [$number, $($numbers),+];

        /// The range of versions, such as "v4 to v12".
        pub const VERSIONS_RANGE: &str = concat!(last!($($v)+), " to ", stringify!($newest));

        /// Prefix of the exported symbols, before the version number.
        pub const SYMBOL_PREFIX: &str = "ncclNetPlugin_v";

        #[cfg(test)]
        const LISTED: &[(&str, u32, &str, &str)] = &[
            (stringify!($newest), $number, stringify!($symbol), $newest::SYMBOL),
            $((stringify!($v), $numbers, stringify!($symbols), $v::SYMBOL)),+
        ];
    };
}
with_versions!(about_all);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_names_of_a_version_agree() {
        for (module, number, listed, transcribed) in LISTED {
            assert_eq!(*module, format!("v{number}"));
            assert_eq!(*listed, format!("{SYMBOL_PREFIX}{number}"));
            assert_eq!(listed, transcribed);
        }
    }

    #[test]
    fn the_list_is_newest_first_without_gaps() {
        assert!(
            VERSIONS.windows(2).all(|pair| pair[0] == pair[1] + 1),
            "{VERSIONS:?}"
        );
        let (newest, oldest) = (VERSIONS[0], VERSIONS[VERSIONS.len() - 1]);
        assert_eq!(VERSIONS_RANGE, format!("v{oldest} to v{newest}"));
    }
}
