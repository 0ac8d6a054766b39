//! `ncclNet_v7_t`: `regMr` takes its size as a C int.
#![expect(unsafe_code, reason = "calls through the plugin's function table")]

net_shim!(tcpx_abi::v7, 7, V7, i32);
