//! `libnccl_net_plainsoft.so`: `tcpx_soft` as a plain host plugin, behind a table
//! of every version.
#![expect(unsafe_code, reason = "exports symbols under the ABI's names")]

macro_rules! export {
    ($($version:ident $symbol:ident)+) => {
        $(
            /// The table by which NCCL and everyone else finds this plugin.
            #[unsafe(no_mangle)]
            pub static $symbol: tcpx_abi::$version::Net = tcpx_soft::plain::$version::TABLE;
        )+
    };
}
export! {
    v4 ncclNetPlugin_v4
    v5 ncclNetPlugin_v5
    v6 ncclNetPlugin_v6
    v7 ncclNetPlugin_v7
    v8 ncclNetPlugin_v8
    v9 ncclNetPlugin_v9
    v10 ncclNetPlugin_v10
    v11 ncclNetPlugin_v11
    v12 ncclNetPlugin_v12
}
