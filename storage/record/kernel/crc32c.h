/* CRC-32C (Castagnoli), by the processor's own instruction where there is one.
 *
 * The instruction has a latency of three cycles and a throughput of one, so three neighbouring blocks are summed
 * at once. The sum of a whole is then sum(first) moved on by the length of the rest, xor sum(rest). Moving on by n
 * zero bytes is linear in the bits of the sum, so one table of 4 x 256 words per block length does it.
 */
#ifndef KFS_CRC32C_H
#define KFS_CRC32C_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define KFS_CRC_HARDWARE 1
#define KFS_CRC_TARGET __attribute__((target("sse4.2")))
#define KFS_CRC_WORD(sum, word) _mm_crc32_u64((sum), (word))
#define KFS_CRC_BYTE(sum, byte) _mm_crc32_u8((uint32_t)(sum), (byte))
#define KFS_CRC_PRESENT() __builtin_cpu_supports("sse4.2")
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define KFS_CRC_HARDWARE 1
#define KFS_CRC_TARGET
#define KFS_CRC_WORD(sum, word) __crc32cd((uint32_t)(sum), (word))
#define KFS_CRC_BYTE(sum, byte) __crc32cb((uint32_t)(sum), (byte))
#define KFS_CRC_PRESENT() 1
#endif

#define KFS_CRC_POLYNOMIAL 0x82F63B78u /* reflected */

static uint32_t kfs_crc_slices[8][256]; /* slice k: the sum of one byte followed by k zero bytes */

static void kfs_crc_make_slices(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++) sum = (sum >> 1) ^ (sum & 1 ? KFS_CRC_POLYNOMIAL : 0);
        kfs_crc_slices[0][byte] = sum;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t before = kfs_crc_slices[k - 1][byte];
            kfs_crc_slices[k][byte] = (before >> 8) ^ kfs_crc_slices[0][before & 255];
        }
}

static uint32_t kfs_crc_software(uint32_t sum, const uint8_t *data, size_t size) {
    for (; size >= 8; data += 8, size -= 8) {
        uint32_t low = sum ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
        sum = kfs_crc_slices[7][low & 255] ^ kfs_crc_slices[6][low >> 8 & 255] ^ kfs_crc_slices[5][low >> 16 & 255] ^
              kfs_crc_slices[4][low >> 24] ^ kfs_crc_slices[3][data[4]] ^ kfs_crc_slices[2][data[5]] ^
              kfs_crc_slices[1][data[6]] ^ kfs_crc_slices[0][data[7]];
    }
    for (; size; data++, size--) sum = (sum >> 8) ^ kfs_crc_slices[0][(sum ^ *data) & 255];
    return sum;
}

#ifdef KFS_CRC_HARDWARE
enum { KFS_CRC_LONG = 4096, KFS_CRC_SHORT = 256, KFS_CRC_LINE = 64 };
static uint32_t kfs_crc_over_long[4][256], kfs_crc_over_short[4][256];

static void kfs_crc_make_move(uint32_t table[4][256], size_t zeros_count) {
    static const uint8_t zeros[KFS_CRC_LONG];
    uint32_t moved_bit[32];
    for (int bit = 0; bit < 32; bit++) moved_bit[bit] = kfs_crc_software(1u << bit, zeros, zeros_count);
    for (int k = 0; k < 4; k++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t moved = 0;
            for (int bit = 0; bit < 8; bit++)
                if (byte >> bit & 1) moved ^= moved_bit[8 * k + bit];
            table[k][byte] = moved;
        }
}

static inline uint32_t kfs_crc_move(uint32_t table[4][256], uint32_t sum) {
    return table[0][sum & 255] ^ table[1][sum >> 8 & 255] ^ table[2][sum >> 16 & 255] ^ table[3][sum >> 24];
}

KFS_CRC_TARGET static inline uint64_t kfs_crc_three(uint64_t sum, const uint8_t *data, size_t block, uint32_t table[4][256]) {
    uint64_t second = 0, third = 0, word;
    for (size_t line = 0; line < block; line += KFS_CRC_LINE) {
        /* The processor does not see by itself what is needed of the next blocks; any address may be asked for. */
        uintptr_t ahead = (uintptr_t)data + 3 * block + line;
        __builtin_prefetch((const void *)ahead);
        __builtin_prefetch((const void *)(ahead + block));
        __builtin_prefetch((const void *)(ahead + 2 * block));
        for (size_t i = line; i < line + KFS_CRC_LINE; i += 8) {
            memcpy(&word, data + i, 8);
            sum = KFS_CRC_WORD(sum, word);
            memcpy(&word, data + block + i, 8);
            second = KFS_CRC_WORD(second, word);
            memcpy(&word, data + 2 * block + i, 8);
            third = KFS_CRC_WORD(third, word);
        }
    }
    sum = kfs_crc_move(table, (uint32_t)sum) ^ second;
    return kfs_crc_move(table, (uint32_t)sum) ^ third;
}

KFS_CRC_TARGET static uint32_t kfs_crc_hardware(uint32_t start, const uint8_t *data, size_t size) {
    uint64_t sum = start, word;
    for (; size >= 3 * KFS_CRC_LONG; data += 3 * KFS_CRC_LONG, size -= 3 * KFS_CRC_LONG)
        sum = kfs_crc_three(sum, data, KFS_CRC_LONG, kfs_crc_over_long);
    for (; size >= 3 * KFS_CRC_SHORT; data += 3 * KFS_CRC_SHORT, size -= 3 * KFS_CRC_SHORT)
        sum = kfs_crc_three(sum, data, KFS_CRC_SHORT, kfs_crc_over_short);
    for (; size >= 8; data += 8, size -= 8) {
        memcpy(&word, data, 8);
        sum = KFS_CRC_WORD(sum, word);
    }
    for (; size; data++, size--) sum = KFS_CRC_BYTE(sum, *data);
    return (uint32_t)sum;
}
#endif

static int kfs_crc_has_hardware;

static void kfs_crc_prepare(void) {
    kfs_crc_make_slices();
    kfs_crc_has_hardware = 0;
#ifdef KFS_CRC_HARDWARE
    if (KFS_CRC_PRESENT()) {
        kfs_crc_make_move(kfs_crc_over_long, KFS_CRC_LONG);
        kfs_crc_make_move(kfs_crc_over_short, KFS_CRC_SHORT);
        kfs_crc_has_hardware = 1;
    }
#endif
}

static uint32_t kfs_crc32c(const uint8_t *data, size_t size) {
#ifdef KFS_CRC_HARDWARE
    if (kfs_crc_has_hardware) return ~kfs_crc_hardware(0xFFFFFFFFu, data, size);
#endif
    return ~kfs_crc_software(0xFFFFFFFFu, data, size);
}

#endif
