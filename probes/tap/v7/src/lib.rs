//! `libnccl_net_tcpxtap.so`: the tap for a plugin that exports version 7: TCPX and its stand-in.
//!
//! What a library exports is a promise, since NCCL takes the highest version it
//! finds; so there is one object per set of versions, and all of it is in
//! `tcpx_tap`.

tcpx_tap::shared_object!(v7 ncclNetPlugin_v7);
