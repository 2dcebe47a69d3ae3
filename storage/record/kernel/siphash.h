/* SipHash-2-4 with a result of 128 bits, as its authors define it: short keys in, a keyed fingerprint out. */
#ifndef KFS_SIPHASH_H
#define KFS_SIPHASH_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct { uint64_t low, high; } kfs_fingerprint;

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define KFS_SIP_WORD(x) __builtin_bswap64(x)
#else
#define KFS_SIP_WORD(x) (x)
#endif

#define KFS_SIP_TURN(x, bits) (((x) << (bits)) | ((x) >> (64 - (bits))))
#define KFS_SIP_ROUND(a, b, c, d) \
    do { \
        a += b; b = KFS_SIP_TURN(b, 13) ^ a; a = KFS_SIP_TURN(a, 32); \
        c += d; d = KFS_SIP_TURN(d, 16) ^ c; \
        a += d; d = KFS_SIP_TURN(d, 21) ^ a; \
        c += b; b = KFS_SIP_TURN(b, 17) ^ c; c = KFS_SIP_TURN(c, 32); \
    } while (0)

static inline kfs_fingerprint kfs_siphash(uint64_t low, uint64_t high, const uint8_t *data, size_t size) {
    uint64_t a = low ^ UINT64_C(0x736f6d6570736575);
    uint64_t b = high ^ UINT64_C(0x646f72616e646f6d) ^ 0xee;
    uint64_t c = low ^ UINT64_C(0x6c7967656e657261);
    uint64_t d = high ^ UINT64_C(0x7465646279746573);
    uint64_t word, last = (uint64_t)size << 56;
    kfs_fingerprint result;
    for (; size >= 8; data += 8, size -= 8) {
        memcpy(&word, data, 8);
        word = KFS_SIP_WORD(word);
        d ^= word;
        KFS_SIP_ROUND(a, b, c, d);
        KFS_SIP_ROUND(a, b, c, d);
        a ^= word;
    }
    for (size_t i = 0; i < size; i++) last |= (uint64_t)data[i] << (8 * i);
    d ^= last;
    KFS_SIP_ROUND(a, b, c, d);
    KFS_SIP_ROUND(a, b, c, d);
    a ^= last;
    c ^= 0xee;
    for (int i = 0; i < 4; i++) KFS_SIP_ROUND(a, b, c, d);
    result.low = a ^ b ^ c ^ d;
    b ^= 0xdd;
    for (int i = 0; i < 4; i++) KFS_SIP_ROUND(a, b, c, d);
    result.high = a ^ b ^ c ^ d;
    return result;
}

/* Where in a table of so many slots a search for the fingerprint begins: evenly spread, without a division. */
static inline uint64_t kfs_scaled(uint64_t low, uint64_t slots) {
    return (uint64_t)(((unsigned __int128)low * slots) >> 64);
}

#endif
