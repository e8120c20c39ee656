#include "wire.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("lean: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

void put_raw(buffer *out, const void *data, size_t size)
{
    if (out->size + size > out->capacity) {
        size_t capacity = out->capacity ? out->capacity : 256;
        while (capacity < out->size + size)
            capacity *= 2;
        out->data = realloc(out->data, capacity);
        if (!out->data)
            die("no memory for %zu bytes", capacity);
        out->capacity = capacity;
    }
    memcpy(out->data + out->size, data, size);
    out->size += size;
}

static void put_big_endian(buffer *out, uint64_t value, int bytes)
{
    uint8_t raw[8];
    for (int i = 0; i < bytes; i++)
        raw[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
    put_raw(out, raw, (size_t)bytes);
}

void put_i8(buffer *out, int8_t value) { put_big_endian(out, (uint64_t)value, 1); }
void put_i16(buffer *out, int16_t value) { put_big_endian(out, (uint64_t)value, 2); }
void put_i32(buffer *out, int32_t value) { put_big_endian(out, (uint64_t)value, 4); }
void put_i64(buffer *out, int64_t value) { put_big_endian(out, (uint64_t)value, 8); }

void put_string(buffer *out, const char *text)
{
    size_t size = strlen(text);
    put_i16(out, (int16_t)size);
    put_raw(out, text, size);
}

void put_varint(buffer *out, int64_t value)
{
    uint64_t left = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    while (left >= 0x80) {
        put_i8(out, (int8_t)(left | 0x80));
        left >>= 7;
    }
    put_i8(out, (int8_t)left);
}

void patch_i32(buffer *out, size_t at, int32_t value)
{
    for (int i = 0; i < 4; i++)
        out->data[at + (size_t)i] = (uint8_t)((uint32_t)value >> (24 - 8 * i));
}

void begin_request(buffer *out, int16_t api, int16_t version, int32_t correlation_id)
{
    out->size = 0;
    put_i32(out, 0);
    put_i16(out, api);
    put_i16(out, version);
    put_i32(out, correlation_id);
    put_string(out, "lean");
}

void end_request(buffer *out) { patch_i32(out, 0, (int32_t)(out->size - 4)); }

const uint8_t *get_raw(reader *in, size_t size)
{
    if ((size_t)(in->end - in->at) < size)
        die("%s: %zu bytes wanted, %zu are left", in->what, size, (size_t)(in->end - in->at));
    const uint8_t *start = in->at;
    in->at += size;
    return start;
}

static uint64_t big_endian(const uint8_t *data, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | data[i];
    return value;
}

int8_t get_i8(reader *in) { return (int8_t)*get_raw(in, 1); }
int16_t get_i16(reader *in) { return (int16_t)big_endian(get_raw(in, 2), 2); }
int32_t get_i32(reader *in) { return (int32_t)big_endian(get_raw(in, 4), 4); }
int64_t get_i64(reader *in) { return (int64_t)big_endian(get_raw(in, 8), 8); }

void get_string(reader *in, char *text, size_t size)
{
    int16_t length = get_i16(in);
    size_t copied = 0;
    if (length > 0) {
        const uint8_t *raw = get_raw(in, (size_t)length);
        copied = (size_t)length < size - 1 ? (size_t)length : size - 1;
        memcpy(text, raw, copied);
    }
    text[copied] = 0;
}

uint32_t crc32c(const uint8_t *data, size_t size)
{
    static uint32_t table[256];
    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t value = i;
            for (int bit = 0; bit < 8; bit++)
                value = value & 1 ? value >> 1 ^ 0x82F63B78u : value >> 1;
            table[i] = value;
        }
    uint32_t crc = ~0u;
    for (size_t i = 0; i < size; i++)
        crc = crc >> 8 ^ table[(crc ^ data[i]) & 0xFF];
    return ~crc;
}

enum { BATCH_HEADER_BYTES = 61, LENGTH_AT = 8, CRC_AT = 17, LAST_OFFSET_DELTA_AT = 23, COUNT_AT = 57 };

static void put_record(buffer *out, int offset_delta, const uint8_t *value, int value_bytes)
{
    buffer body = {0};
    put_i8(&body, 0);
    put_varint(&body, 0);
    put_varint(&body, offset_delta);
    put_varint(&body, -1);
    put_varint(&body, value_bytes);
    put_raw(&body, value, (size_t)value_bytes);
    put_varint(&body, 0);
    put_varint(out, (int64_t)body.size);
    put_raw(out, body.data, body.size);
    free(body.data);
}

buffer make_batch(int count, int value_bytes)
{
    static uint32_t seed = 12345;
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    int64_t timestamp_ms = wall.tv_sec * 1000LL + wall.tv_nsec / 1000000;
    buffer out = {0};
    put_i64(&out, 0);          /* base offset: the leader's */
    put_i32(&out, 0);          /* length */
    put_i32(&out, -1);         /* leader epoch: the leader's */
    put_i8(&out, 2);           /* magic */
    put_i32(&out, 0);          /* CRC */
    put_i16(&out, 0);          /* attributes: uncompressed, CreateTime */
    put_i32(&out, count - 1);
    put_i64(&out, timestamp_ms);
    put_i64(&out, timestamp_ms);
    put_i64(&out, -1);         /* no producer id, epoch, sequence */
    put_i16(&out, -1);
    put_i32(&out, -1);
    put_i32(&out, count);
    uint8_t *value = malloc((size_t)value_bytes + 1);
    if (!value)
        die("no memory");
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < value_bytes; j++) {
            seed = seed * 1664525u + 1013904223u;
            value[j] = (uint8_t)('A' + (seed >> 16) % 26);
        }
        put_record(&out, i, value, value_bytes);
    }
    free(value);
    patch_i32(&out, LENGTH_AT, (int32_t)(out.size - 12));
    patch_i32(&out, CRC_AT, (int32_t)crc32c(out.data + CRC_AT + 4, out.size - CRC_AT - 4));
    return out;
}

static int varint_bytes(int64_t value)
{
    uint64_t left = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    int bytes = 1;
    while (left >= 0x80) {
        left >>= 7;
        bytes++;
    }
    return bytes;
}

int records_per_batch(int value_bytes, int batch_bytes)
{
    int used = BATCH_HEADER_BYTES, count = 0;
    for (;;) {
        int body = 4 + varint_bytes(count) + varint_bytes(value_bytes) + value_bytes;
        int record = varint_bytes(body) + body;
        if (used + record > batch_bytes && count > 0)
            return count;
        used += record;
        count++;
    }
}

int64_t walk_batches(const uint8_t *data, size_t size, int64_t from, uint64_t *records)
{
    int64_t next = from;
    size_t at = 0;
    while (size - at >= BATCH_HEADER_BYTES) {
        const uint8_t *batch = data + at;
        size_t whole = 12 + (size_t)big_endian(batch + LENGTH_AT, 4);
        if (whole > size - at)
            break;
        int64_t last = (int64_t)big_endian(batch, 8) + (int32_t)big_endian(batch + LAST_OFFSET_DELTA_AT, 4);
        if (last >= from) {
            *records += big_endian(batch + COUNT_AT, 4);
            next = last + 1;
        }
        at += whole;
    }
    return next;
}
