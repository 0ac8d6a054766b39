//! `libnccl_net_tcpxtap.so`: a table of every version, of which those stay that
//! the plugin behind it exports. All of it is in `tcpx_tap`.

tcpx_tap::shared_object!(
    v4 ncclNetPlugin_v4,
    v5 ncclNetPlugin_v5,
    v6 ncclNetPlugin_v6,
    v7 ncclNetPlugin_v7,
    v8 ncclNetPlugin_v8,
    v9 ncclNetPlugin_v9,
    v10 ncclNetPlugin_v10,
    v11 ncclNetPlugin_v11,
    v12 ncclNetPlugin_v12,
);
