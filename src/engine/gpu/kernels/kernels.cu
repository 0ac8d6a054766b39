/* The kernels: gather a scatter list, write the pattern, verify it.
 *
 * `scripts/kernels` compiles this ahead to kernels.ptx, which is what the
 * program carries; no CUDA toolkit is needed for either. It is kept to plain C,
 * without shared memory, shuffles or atomics, so that the tests' stand-in driver
 * can compile the same file for the CPU and run it thread by thread.
 *
 * Everything the host hands over was checked there: pieces lie in the bounce
 * buffer and in their message, chunks start on 16 bytes.
 */
#ifdef __CUDA__
#define KERNEL extern "C" __attribute__((global)) void
#define DEVICE static inline __attribute__((device, always_inline))
#define THREAD ((u32)__nvvm_read_ptx_sreg_tid_x())
#define BLOCK_X ((u32)__nvvm_read_ptx_sreg_ctaid_x())
#define BLOCK_Y ((u32)__nvvm_read_ptx_sreg_ctaid_y())
#define BLOCK_THREADS ((u32)__nvvm_read_ptx_sreg_ntid_x())
#else
#define KERNEL void
#define DEVICE static inline
#endif

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef u32 vec4 __attribute__((vector_size(16)));
typedef u64 vec2 __attribute__((vector_size(16)));

/* Part of one fragment, at most 4 KiB; a warp copies it. One vector, so that it
 * is one read over the bus. */
struct piece {
    vec4 is; /* offset in the bounce buffer, bytes, address in two halves */
};

/* Few enough to be an argument. */
struct pieces {
    struct piece of[128];
};

/* One message, to fill or to verify; `transfer/payload.rs` has the arithmetic. */
struct chunk {
    u64 at;   /* address, a multiple of 16 */
    u64 body; /* what is added to every word of the table */
    u64 first; /* stamp of block 0 before it is scrambled */
    u32 len;
    u32 guard; /* canary bytes this far behind `at`; 0 for none */
};

/* Messages of one launch; as an argument they need no trip over the bus. */
struct chunks {
    struct chunk of[64];
};

enum { WARP = 32, UNROLL = 8, PAGE_VECTORS = 256, PAGE_WORDS = 512, BLOCK_WORDS = 256, GUARD = 64 };
#define SCRAMBLE 0x9e3779b97f4a7c15ull
#define PAGE_SHIFT 0x01014c957f2d0001ull
#define CANARY 0xc5
/* What `verify` leaves in a chunk's flag. */
enum { WRONG = 1, OVERRUN = 2 };

DEVICE void copy_bytes(u8 *dst, const u8 *src, u32 len, u32 lane) {
    for (u32 at = lane; at < len; at += WARP) dst[at] = src[at];
}

/* Both on 16 bytes. Loads before stores, so that eight are in flight. */
DEVICE void copy_vectors(vec4 *dst, const vec4 *src, u32 count, u32 lane) {
    u32 at = lane;
    for (; at + (UNROLL - 1) * WARP < count; at += UNROLL * WARP) {
        vec4 held[UNROLL];
        _Pragma("unroll") for (u32 turn = 0; turn < UNROLL; turn++) held[turn] = src[at + turn * WARP];
        _Pragma("unroll") for (u32 turn = 0; turn < UNROLL; turn++) dst[at + turn * WARP] = held[turn];
    }
    for (; at < count; at += WARP) dst[at] = src[at];
}

/* A word from two aligned ones; both hold at least one byte of the fragment. */
DEVICE u32 shifted(const u32 *words, u32 shift) {
    u64 both = words[0];
    if (shift) both |= (u64)words[1] << 32;
    return (u32)(both >> shift);
}

/* `dst` on 4 bytes, `src` anywhere. */
DEVICE void copy_shifted(u32 *dst, const u8 *src, u32 count, u32 lane) {
    u32 shift = ((u64)src & 3) * 8, at = lane;
    const u32 *words = (const u32 *)((u64)src & ~3ull);
    for (; at + (UNROLL - 1) * WARP < count; at += UNROLL * WARP) {
        u32 held[UNROLL];
        _Pragma("unroll") for (u32 turn = 0; turn < UNROLL; turn++) held[turn] = shifted(words + at + turn * WARP, shift);
        _Pragma("unroll") for (u32 turn = 0; turn < UNROLL; turn++) dst[at + turn * WARP] = held[turn];
    }
    for (; at < count; at += WARP) dst[at] = shifted(words + at, shift);
}

DEVICE void copy(u8 *dst, const u8 *src, u32 len, u32 lane) {
    u32 same = (((u64)src ^ (u64)dst) & 15) == 0;
    u32 unit = same ? 16 : 4;
    u32 head = (u32)(-(u64)dst & (unit - 1));
    if (head > len) head = len;
    copy_bytes(dst, src, head, lane);
    u32 count = (len - head) / unit;
    if (same)
        copy_vectors((vec4 *)(dst + head), (const vec4 *)(src + head), count, lane);
    else
        copy_shifted((u32 *)(dst + head), src + head, count, lane);
    u32 done = head + count * unit;
    copy_bytes(dst + done, src + done, len - done, lane);
}

DEVICE void copy_piece(const u8 *bounce, struct piece piece) {
    u64 dst = piece.is[2] | (u64)piece.is[3] << 32;
    copy((u8 *)dst, bounce + piece.is[0], piece.is[1], THREAD % WARP);
}

/* A warp per piece; the list lies in memory of the host. */
KERNEL unpack(const u8 *bounce, const struct piece *list, u32 pieces) {
    u32 number = (BLOCK_X * BLOCK_THREADS + THREAD) / WARP;
    if (number < pieces) copy_piece(bounce, list[number]);
}

/* As `unpack`, of a list that is an argument: no trip over the bus. */
KERNEL unpack_few(const u8 *bounce, struct pieces list, u32 pieces) {
    u32 number = (BLOCK_X * BLOCK_THREADS + THREAD) / WARP;
    if (number < pieces) copy_piece(bounce, list.of[number]);
}

DEVICE u64 stamp(const struct chunk *chunk, u64 key, u32 block) {
    return ((chunk->first + block) ^ key) * SCRAMBLE;
}

/* The byte at `at`, for the last few of a chunk. */
DEVICE u8 byte_at(const u64 *table, u64 key, const struct chunk *chunk, u32 at) {
    u32 word = at / 8;
    u64 value = table[word % PAGE_WORDS] + chunk->body + (u64)(word / PAGE_WORDS) * PAGE_SHIFT;
    if (word % BLOCK_WORDS == 0 && word * 8 + 8 <= chunk->len) value = stamp(chunk, key, word / BLOCK_WORDS);
    return (u8)(value >> at % 8 * 8);
}

/* The two words at vector `thread` of `page`; `body` is the table's. */
DEVICE vec2 words_at(vec2 body, u64 key, const struct chunk *chunk, u32 page, u32 thread) {
    u64 shift = chunk->body + (u64)page * PAGE_SHIFT;
    vec2 words = {body[0] + shift, body[1] + shift};
    if (thread % (BLOCK_WORDS / 2) == 0)
        words[0] = stamp(chunk, key, page * (PAGE_WORDS / BLOCK_WORDS) + thread / (BLOCK_WORDS / 2));
    return words;
}

/* 256 threads write one page together, 16 bytes each; a block of them takes
 * UNROLL pages in a row, a row of blocks takes one chunk. */
KERNEL fill(const u64 *table, u64 key, struct chunks chunks) {
    struct chunk chunk = chunks.of[BLOCK_Y];
    u32 thread = THREAD, vectors = chunk.len / 16, first = BLOCK_X * UNROLL, start = first * PAGE_VECTORS + thread;
    vec2 body = ((const vec2 *)table)[thread], *place = (vec2 *)chunk.at + start;
    if ((first + UNROLL) * PAGE_VECTORS <= vectors) {
        _Pragma("unroll") for (u32 turn = 0; turn < UNROLL; turn++)
            place[turn * PAGE_VECTORS] = words_at(body, key, &chunk, first + turn, thread);
    } else {
        for (u32 turn = 0; turn < UNROLL && start + turn * PAGE_VECTORS < vectors; turn++)
            place[turn * PAGE_VECTORS] = words_at(body, key, &chunk, first + turn, thread);
    }
    u32 last = vectors * 16 + thread;
    if (BLOCK_X == 0 && last < chunk.len) ((u8 *)chunk.at)[last] = byte_at(table, key, &chunk, last);
}

DEVICE u64 difference(vec2 got, vec2 wanted) {
    return (got[0] ^ wanted[0]) | (got[1] ^ wanted[1]);
}

/* As `fill`, compared. A flag that is not 0 says that the host must look. */
KERNEL verify(const u64 *table, u64 key, struct chunks chunks, u32 *flags) {
    struct chunk chunk = chunks.of[BLOCK_Y];
    u32 thread = THREAD, vectors = chunk.len / 16, first = BLOCK_X * UNROLL, start = first * PAGE_VECTORS + thread;
    vec2 body = ((const vec2 *)table)[thread];
    const vec2 *place = (const vec2 *)chunk.at + start;
    u64 differs = 0;
    if ((first + UNROLL) * PAGE_VECTORS <= vectors) {
        vec2 held[UNROLL];
        _Pragma("unroll") for (u32 turn = 0; turn < UNROLL; turn++) held[turn] = place[turn * PAGE_VECTORS];
        _Pragma("unroll") for (u32 turn = 0; turn < UNROLL; turn++)
            differs |= difference(held[turn], words_at(body, key, &chunk, first + turn, thread));
    } else {
        for (u32 turn = 0; turn < UNROLL && start + turn * PAGE_VECTORS < vectors; turn++)
            differs |= difference(place[turn * PAGE_VECTORS], words_at(body, key, &chunk, first + turn, thread));
    }
    u32 last = vectors * 16 + thread;
    if (BLOCK_X == 0 && last < chunk.len) differs |= ((const u8 *)chunk.at)[last] ^ byte_at(table, key, &chunk, last);
    if (differs) flags[BLOCK_Y] = WRONG;
    if (BLOCK_X == 0 && chunk.guard && thread < GUARD && ((const u8 *)chunk.at)[chunk.guard + thread] != CANARY)
        flags[BLOCK_Y] = OVERRUN;
}
