//! `libnccl_net_plainsoft.so`: `tcpx_soft` as a plain host plugin, behind a table
//! of every version.
#![expect(unsafe_code, reason = "exports symbols under the ABI's names")]

macro_rules! export {
    ($(($v:ident $variant:ident $number:literal $symbol:ident))+) => {
        $(
            /// The table by which NCCL and everyone else finds this plugin.
            #[unsafe(no_mangle)]
            pub static $symbol: tcpx_abi::$v::Net = tcpx_soft::plain::$v::TABLE;
        )+
    };
}
tcpx_abi::with_versions!(export);
