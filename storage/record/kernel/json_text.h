/* Bytes as the text of a JSON string, with what Python's `json` escapes, if Python's decoder takes them for UTF-8; or
 * as base64.
 *
 * Escaped are a quote, a backslash and control characters: by a letter where there is one, otherwise by `u` and four
 * lower-case digits. Surrogates, forms longer than they need be and what lies above U+10FFFF are not UTF-8.
 * Text is looked at in blocks. Compilers of every processor know how to compare these; only to make a mask of what was
 * found is left to an instruction where there is one.
 */
#ifndef KFS_JSON_TEXT_H
#define KFS_JSON_TEXT_H
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
    KFS_BLOCK = 16,
    KFS_LONGEST_BEFORE = 3, /* bytes of a character before its last */
    KFS_JSON_SLACK = 7 * KFS_BLOCK, /* what a block may become, and the one that is written after it */
    KFS_JSON_NO_TEXT = -1,
    KFS_JSON_NO_ROOM = -2
};

typedef int8_t kfs_block __attribute__((vector_size(16)));
typedef uint8_t kfs_bytes __attribute__((vector_size(16)));

/* The escapes of the characters that have one, each with its size at its end. */
#define KFS_LETTER(c) {'\\', c, 0, 0, 0, 0, 0, 2}
#define KFS_DIGITS(a, b) {'\\', 'u', '0', '0', a, b, 0, 6}
enum { KFS_ESCAPE_SIZE_AT = 7 };
static const uint8_t kfs_escapes['\\' + 1][8] = {
    KFS_DIGITS('0', '0'), KFS_DIGITS('0', '1'), KFS_DIGITS('0', '2'), KFS_DIGITS('0', '3'),
    KFS_DIGITS('0', '4'), KFS_DIGITS('0', '5'), KFS_DIGITS('0', '6'), KFS_DIGITS('0', '7'),
    KFS_LETTER('b'), KFS_LETTER('t'), KFS_LETTER('n'), KFS_DIGITS('0', 'b'),
    KFS_LETTER('f'), KFS_LETTER('r'), KFS_DIGITS('0', 'e'), KFS_DIGITS('0', 'f'),
    KFS_DIGITS('1', '0'), KFS_DIGITS('1', '1'), KFS_DIGITS('1', '2'), KFS_DIGITS('1', '3'),
    KFS_DIGITS('1', '4'), KFS_DIGITS('1', '5'), KFS_DIGITS('1', '6'), KFS_DIGITS('1', '7'),
    KFS_DIGITS('1', '8'), KFS_DIGITS('1', '9'), KFS_DIGITS('1', 'a'), KFS_DIGITS('1', 'b'),
    KFS_DIGITS('1', 'c'), KFS_DIGITS('1', 'd'), KFS_DIGITS('1', 'e'), KFS_DIGITS('1', 'f'),
    ['"'] = KFS_LETTER('"'), ['\\'] = KFS_LETTER('\\'),
};

/* Bit i is the highest bit of byte i. */
static inline uint32_t kfs_mask(kfs_block found) {
#if defined(__SSE2__)
    return (uint32_t)_mm_movemask_epi8((__m128i)found);
#else
    uint64_t halves[2];
    memcpy(halves, &found, sizeof halves);
    for (int i = 0; i < 2; i++) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        halves[i] = __builtin_bswap64(halves[i]);
#endif
        halves[i] = (halves[i] & UINT64_C(0x8080808080808080)) >> 7;
        halves[i] = halves[i] * UINT64_C(0x0102040810204080) >> 56;
    }
    return (uint32_t)(halves[0] | halves[1] << 8);
#endif
}

static inline uint32_t kfs_first_bits(int count) { return ((uint32_t)1 << count) - 1; }

static inline int kfs_bits_in(uint32_t mask) {
    mask -= mask >> 1 & 0x5555;
    mask = (mask & 0x3333) + (mask >> 2 & 0x3333);
    mask = (mask + (mask >> 4)) & 0x0F0F;
    return (int)((mask + (mask >> 8)) & 31);
}

/* Text up to `end`, of which a block begins at `at`; memory may be read up to `readable`. */
typedef struct {
    const uint8_t *start, *at, *end, *readable;
    uint8_t window[KFS_LONGEST_BEFORE + 2 * KFS_BLOCK];
} kfs_text;

/* A block of text: where it, and as much again, may be read, and as many of its bytes as are of the text. */
typedef struct {
    const uint8_t *at;
    int size;
    uint32_t escaped; /* the bytes that must be escaped */
    uint32_t high; /* the bytes of characters that are not ASCII */
} kfs_part;

static inline kfs_text kfs_text_of(const uint8_t *at, int64_t size, const uint8_t *readable) {
    kfs_text text;
    text.start = text.at = at;
    text.end = at + size;
    text.readable = readable;
    return text;
}

static inline kfs_part kfs_part_of(kfs_text *text) {
    kfs_part part;
    kfs_block block;
    int64_t left = text->end - text->at, readable = text->readable - text->at;
    part.at = text->at;
    part.size = left < KFS_BLOCK ? (int)left : KFS_BLOCK;
    if (readable < 2 * KFS_BLOCK) {
        int before = text->at == text->start ? 0 : KFS_LONGEST_BEFORE;
        part.at = text->window + KFS_LONGEST_BEFORE;
        memset(text->window, 0, sizeof text->window);
        memcpy(text->window + KFS_LONGEST_BEFORE - before, text->at - before, before + part.size);
    }
    memcpy(&block, part.at, KFS_BLOCK);
    part.escaped = kfs_mask((kfs_block)(block < ' ') | (kfs_block)(block == '"') | (kfs_block)(block == '\\'));
    part.escaped &= kfs_first_bits(part.size);
    part.high = 0;
    if (part.escaped) {
        part.high = kfs_mask(block) & part.escaped;
        part.escaped ^= part.high;
    }
    return part;
}

/* Whether the first bytes of a block break a rule of UTF-8; the bytes before it may be read. */
static inline int kfs_is_wrong(const uint8_t *at, int size) {
    kfs_bytes block, one_before, two_before, three_before;
    kfs_block wrong;
    memcpy(&block, at, KFS_BLOCK);
    memcpy(&one_before, at - 1, KFS_BLOCK);
    memcpy(&two_before, at - 2, KFS_BLOCK);
    memcpy(&three_before, at - 3, KFS_BLOCK);
    wrong = (kfs_block)(one_before >= 0xC2) | (kfs_block)(two_before >= 0xE0) | (kfs_block)(three_before >= 0xF0);
    wrong ^= (kfs_block)((kfs_block)block < -0x40); /* 80 to BF stand there and only there */
    wrong |= (kfs_block)(block == 0xC0) | (kfs_block)(block == 0xC1) | (kfs_block)(block >= 0xF5);
    wrong |= (kfs_block)(one_before == 0xE0) & (kfs_block)(block < 0xA0); /* longer than need be */
    wrong |= (kfs_block)(one_before == 0xED) & (kfs_block)(block >= 0xA0); /* a surrogate */
    wrong |= (kfs_block)(one_before == 0xF0) & (kfs_block)(block < 0x90); /* longer than need be */
    wrong |= (kfs_block)(one_before == 0xF4) & (kfs_block)(block >= 0x90); /* above U+10FFFF */
    return (kfs_mask(wrong) & kfs_first_bits(size)) != 0;
}

/* Whether a part in which not all is ASCII is UTF-8, up to a character that goes on in the next. */
static inline int kfs_is_utf8(kfs_text *text, const kfs_part *part) {
    const uint8_t *at = part->at, *next = text->at + part->size;
    if (at == text->start) {
        memset(text->window, 0, KFS_LONGEST_BEFORE);
        memcpy(text->window + KFS_LONGEST_BEFORE, at, KFS_BLOCK);
        at = text->window + KFS_LONGEST_BEFORE;
    }
    if (kfs_is_wrong(at, part->size)) return 0;
    at += part->size;
    /* A part that is all ASCII is not looked at, so it must not be the one in which a character goes on. */
    return at[-1] < 0xC2 && at[-2] < 0xE0 && at[-3] < 0xF0 ? 1 : next < text->end && *next >= 0x80;
}

/* The size of the text, or KFS_JSON_NO_TEXT. */
static inline int64_t kfs_json_text_size(const uint8_t *at, int64_t size, const uint8_t *readable) {
    kfs_text text = kfs_text_of(at, size, readable);
    kfs_block block;
    for (; text.at < text.end; text.at += KFS_BLOCK) {
        kfs_part part = kfs_part_of(&text);
        if (part.high && !kfs_is_utf8(&text, &part)) return KFS_JSON_NO_TEXT;
        if (!part.escaped) continue;
        memcpy(&block, part.at, KFS_BLOCK);
        if (part.escaped & kfs_mask((kfs_block)(block < ' '))) {
            for (; part.escaped; part.escaped &= part.escaped - 1)
                size += kfs_escapes[part.at[__builtin_ctz(part.escaped)]][KFS_ESCAPE_SIZE_AT] - 1;
        } else {
            size += kfs_bits_in(part.escaped);
        }
    }
    return size;
}

/* Write the text and move the target after it, or return what hinders. A part is begun up to the limit, beyond which
 * there is room for KFS_JSON_SLACK bytes: a block is copied as it is, and what follows each escape a second time. */
static inline int kfs_put_json_text(
    uint8_t **target, const uint8_t *limit, const uint8_t *at, int64_t size, const uint8_t *readable
) {
    kfs_text text = kfs_text_of(at, size, readable);
    uint8_t *to = *target;
    for (; text.at < text.end; text.at += KFS_BLOCK) {
        kfs_part part = kfs_part_of(&text);
        int done = 0;
        if (to > limit) return KFS_JSON_NO_ROOM;
        if (part.high && !kfs_is_utf8(&text, &part)) return KFS_JSON_NO_TEXT;
        memcpy(to, part.at, KFS_BLOCK);
        for (; part.escaped; part.escaped &= part.escaped - 1) {
            int place = __builtin_ctz(part.escaped);
            const uint8_t *escape = kfs_escapes[part.at[place]];
            to += place - done;
            memcpy(to, escape, sizeof kfs_escapes[0]);
            to += escape[KFS_ESCAPE_SIZE_AT];
            done = place + 1;
            memcpy(to, part.at + done, KFS_BLOCK);
        }
        to += part.size - done;
    }
    *target = to;
    return 0;
}

/* Two digits of base64 for each twelve bits. */
static char kfs_base64[1 << 12][2];

static void kfs_make_base64(void) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int bits = 0; bits < 1 << 12; bits++) {
        kfs_base64[bits][0] = digits[bits >> 6];
        kfs_base64[bits][1] = digits[bits & 63];
    }
}

static inline int64_t kfs_base64_size(int64_t size) { return (size + 2) / 3 * 4; }

static inline uint8_t *kfs_put_base64(uint8_t *target, const uint8_t *at, int64_t size) {
    uint32_t bits;
    for (; size >= 3; at += 3, size -= 3, target += 4) {
        bits = (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
        memcpy(target, kfs_base64[bits >> 12], 2);
        memcpy(target + 2, kfs_base64[bits & 0xFFF], 2);
    }
    if (size == 0) return target;
    bits = (uint32_t)at[0] << 16 | (size == 2 ? (uint32_t)at[1] << 8 : 0);
    memcpy(target, kfs_base64[bits >> 12], 2);
    memcpy(target + 2, kfs_base64[bits & 0xFFF], 2);
    if (size == 1) target[2] = '=';
    target[3] = '=';
    return target + 4;
}
#endif
