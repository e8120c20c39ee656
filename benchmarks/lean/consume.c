/* Consume a topic from its start, as fast as it comes or at a limited rate, and count: one thread, one fetch in flight on
 * each leader's connection, Kafka's default sizes, full fetches (no session), batches walked by their headers.
 *
 * With due_rate and start_ns, those of a `lean produce` that fills the topic meanwhile, a latency is that of a record,
 * from when it was due there until it is here; without, that of a fetch.
 */
#define _GNU_SOURCE
#include "cluster.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAIT_MAX_MS = 500, FETCH_MAX_BYTES = 52428800, PARTITION_MAX_BYTES = 1048576, FETCH_PARTS_MAX = 1024 };
static const int64_t STALL_NS = 30000000000LL;

typedef struct {
    int32_t broker_id;
    int socket, asked, partition_count, turn;
    int *partitions;
    int64_t sent_ns;
    buffer request, answer; /* answer: capacity is what an answer may need, size what has come */
} connection;

typedef struct {
    const options *want;
    cluster cluster;
    connection connections[BROKERS_MAX];
    int connection_count;
    int64_t *offset;
    uint64_t records, bytes, requests;
    int first_error;
    int64_t start_ns, last_ns;
    samples latencies;
} consumer;

static void begin_fetch(consumer *self, connection *on)
{
    buffer *out = &on->request;
    begin_request(out, API_FETCH, FETCH_VERSION, 1);
    put_i32(out, -1); /* a consumer */
    put_i32(out, WAIT_MAX_MS);
    put_i32(out, self->want->min_bytes);
    put_i32(out, FETCH_MAX_BYTES);
    put_i8(out, 0);
    put_i32(out, 0); /* no session */
    put_i32(out, -1);
    put_i32(out, 1);
    put_string(out, self->want->topic);
    int count = on->partition_count < FETCH_PARTS_MAX ? on->partition_count : FETCH_PARTS_MAX;
    put_i32(out, count);
    for (int i = 0; i < count; i++) {
        int partition = on->partitions[(on->turn + i) % on->partition_count];
        put_i32(out, partition);
        put_i32(out, -1);
        put_i64(out, self->offset[partition]);
        put_i64(out, -1);
        put_i32(out, PARTITION_MAX_BYTES);
    }
    on->turn = (on->turn + 1) % on->partition_count;
    put_i32(out, 0);
    put_string(out, "");
    end_request(out);
    if (send_all(on->socket, out->data, out->size) < 0)
        die("broker %d: the fetch could not be sent", on->broker_id);
    on->asked = 1;
    on->sent_ns = now_ns();
    self->requests++;
}

/* Of the records of a partition from that offset on that have just come. Offsets number a partition's records in the
 * order in which `lean produce` made them due, round the partitions.
 */
static void note_latencies(consumer *self, int partition, int64_t from)
{
    if (self->want->due_rate <= 0)
        return;
    int64_t now = now_ns(), counted_from = self->want->start_ns + self->want->skip_ms * 1000000LL;
    for (int64_t offset = from; offset < self->offset[partition]; offset++) {
        double index = (double)(offset * self->cluster.partition_count + partition);
        int64_t due = self->want->start_ns + (int64_t)(index / self->want->due_rate * 1e9);
        if (due >= counted_from)
            add_sample(&self->latencies, now - due);
    }
}

static void take_answer(consumer *self, connection *on, const uint8_t *data, size_t size)
{
    reader in = {data, data + size, "Fetch answer"};
    char topic[256];
    get_i32(&in);
    get_i32(&in);
    int16_t error = get_i16(&in);
    get_i32(&in);
    for (int32_t topics = get_i32(&in); topics > 0; topics--) {
        get_string(&in, topic, sizeof topic);
        for (int32_t left = get_i32(&in); left > 0; left--) {
            int32_t partition = get_i32(&in);
            int16_t partition_error = get_i16(&in);
            for (int offsets = 0; offsets < 3; offsets++)
                get_i64(&in);
            for (int32_t aborted = get_i32(&in); aborted > 0; aborted--)
                get_raw(&in, 16);
            get_i32(&in);
            int32_t length = get_i32(&in);
            if (partition_error && !self->first_error)
                self->first_error = partition_error;
            if (partition < 0 || partition >= self->cluster.partition_count)
                die("broker %d: partition %d was not asked for", on->broker_id, partition);
            if (length <= 0)
                continue;
            const uint8_t *records = get_raw(&in, (size_t)length);
            int64_t from = self->offset[partition];
            self->offset[partition] = walk_batches(records, (size_t)length, from, &self->records);
            self->bytes += (uint64_t)length;
            note_latencies(self, partition, from);
        }
    }
    if (error && !self->first_error)
        self->first_error = error;
    self->last_ns = now_ns();
    if (self->want->due_rate <= 0)
        add_sample(&self->latencies, self->last_ns - on->sent_ns);
}

static void reserve(buffer *out, size_t size)
{
    if (size <= out->capacity)
        return;
    out->data = realloc(out->data, size);
    if (!out->data)
        die("no memory for an answer of %zu bytes", size);
    out->capacity = size;
}

static void read_answer(consumer *self, connection *on)
{
    buffer *in = &on->answer;
    reserve(in, 1 << 20);
    for (;;) {
        size_t whole = 4;
        if (in->size >= 4) {
            whole += (size_t)in->data[0] << 24 | (size_t)in->data[1] << 16 | (size_t)in->data[2] << 8 | in->data[3];
            reserve(in, whole);
        }
        if (in->size >= 4 && in->size == whole)
            break;
        ssize_t got = recv(on->socket, in->data + in->size, whole - in->size, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (got <= 0)
            die("broker %d: %s", on->broker_id, got == 0 ? "closed the connection" : strerror(errno));
        in->size += (size_t)got;
    }
    on->asked = 0;
    take_answer(self, on, in->data + 4, in->size - 4);
    in->size = 0;
}

static void connect_leaders(consumer *self)
{
    cluster *cluster = &self->cluster;
    for (int b = 0; b < cluster->broker_count; b++) {
        connection *on = &self->connections[self->connection_count];
        on->broker_id = cluster->brokers[b].id;
        on->partitions = calloc((size_t)cluster->partition_count, sizeof *on->partitions);
        for (int p = 0; p < cluster->partition_count; p++)
            if (cluster->leader[p] == on->broker_id)
                on->partitions[on->partition_count++] = p;
        if (on->partition_count == 0)
            continue;
        on->socket = dial(&cluster->brokers[b].at, 5000);
        if (on->socket < 0)
            die("broker %d: cannot connect", on->broker_id);
        self->connection_count++;
    }
}

int run_consume(const options *want)
{
    static consumer state;
    consumer *self = &state;
    self->want = want;
    await_cluster(want, &self->cluster);
    self->offset = calloc((size_t)self->cluster.partition_count, sizeof *self->offset);
    connect_leaders(self);
    if (want->due_rate <= 0)
        await_start(want); /* else it waits at the head for what will come */
    self->start_ns = self->last_ns = now_ns();
    int64_t progress_ns = self->start_ns;
    uint64_t seen = 0;
    struct pollfd polled[BROKERS_MAX];
    while ((int64_t)self->records < want->records && !self->first_error) {
        int64_t now = now_ns();
        int held = want->rate > 0 && (double)self->records > (double)(now - self->start_ns) / 1e9 * want->rate;
        for (int i = 0; i < self->connection_count; i++) {
            connection *on = &self->connections[i];
            if (!on->asked && !held)
                begin_fetch(self, on);
            polled[i] = (struct pollfd){on->socket, POLLIN, 0};
        }
        struct timespec limit = {held ? 0 : 1, held ? 500000 : 0};
        if (ppoll(polled, (nfds_t)self->connection_count, &limit, NULL) < 0 && errno != EINTR)
            die("ppoll: %s", strerror(errno));
        for (int i = 0; i < self->connection_count; i++)
            if (polled[i].revents)
                read_answer(self, &self->connections[i]);
        if (self->records != seen) {
            seen = self->records;
            progress_ns = now_ns();
        } else if (now_ns() - progress_ns > STALL_NS)
            die("%llu of %lld records, then none for %lld s", (unsigned long long)seen, (long long)want->records,
                (long long)(STALL_NS / 1000000000));
    }
    printf("{\"records\": %llu, \"failed_records\": 0, \"bytes\": %llu, \"requests\": %llu, \"first_error\": %d, \"first_send_ns\": %lld, "
           "\"last_ack_ns\": %lld, \"cpu_s\": %.3f, ",
           (unsigned long long)self->records, (unsigned long long)self->bytes, (unsigned long long)self->requests,
           self->first_error, (long long)self->start_ns, (long long)self->last_ns, cpu_seconds());
    print_samples(&self->latencies);
    printf("}\n");
    return 0;
}
