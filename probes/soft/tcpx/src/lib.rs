//! `libnccl_net_tcpxsoft.so`: `tcpx_soft` behind the one table that TCPX exports.
#![expect(unsafe_code, reason = "exports a symbol under the ABI's name")]

/// The table by which NCCL and everyone else finds this plugin.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v7: tcpx_abi::v7::Net = tcpx_soft::TABLE;
