/* Bytes of the Kafka protocol, as far as a load generator needs them: growing output, checked input, record batches. */
#ifndef LEAN_WIRE_H
#define LEAN_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum { API_PRODUCE = 0, API_FETCH = 1, API_METADATA = 3 };
enum { PRODUCE_VERSION = 7, FETCH_VERSION = 11, METADATA_VERSION = 1 };

/* Output. Ends the process when memory runs out. */
typedef struct {
    uint8_t *data;
    size_t size, capacity;
} buffer;

void put_raw(buffer *out, const void *data, size_t size);
void put_i8(buffer *out, int8_t value);
void put_i16(buffer *out, int16_t value);
void put_i32(buffer *out, int32_t value);
void put_i64(buffer *out, int64_t value);
void put_string(buffer *out, const char *text);
void put_varint(buffer *out, int64_t value);
void patch_i32(buffer *out, size_t at, int32_t value);

/* The start of a request: a length to be patched by end_request, then header version 1. */
void begin_request(buffer *out, int16_t api, int16_t version, int32_t correlation_id);
void end_request(buffer *out);

/* Input: a read past the end ends the process with a message that names what was read. */
typedef struct {
    const uint8_t *at, *end;
    const char *what;
} reader;

const uint8_t *get_raw(reader *in, size_t size);
int8_t get_i8(reader *in);
int16_t get_i16(reader *in);
int32_t get_i32(reader *in);
int64_t get_i64(reader *in);
/* Copies at most size - 1 bytes and ends them with 0; a null string gives "". */
void get_string(reader *in, char *text, size_t size);

uint32_t crc32c(const uint8_t *data, size_t size);

/* One uncompressed batch (magic 2, no producer id) of `count` equal-sized records without key. */
buffer make_batch(int count, int value_bytes);
/* How many records of that size a batch of at most batch_bytes holds; at least 1. */
int records_per_batch(int value_bytes, int batch_bytes);

/* Walks whole batches in records[0..size): adds to *records, returns the offset after the last, or `from` if none. */
int64_t walk_batches(const uint8_t *data, size_t size, int64_t from, uint64_t *records);

void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
int64_t now_ns(void);

#endif
