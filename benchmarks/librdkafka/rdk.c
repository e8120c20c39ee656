/* rdk: produce or consume a topic through librdkafka's C API, as fast as it goes. A client library at work: it builds
 * each record, where `lean` sends batches that it built once. Prints the same line of JSON as `lean`.
 *
 * rdk produce|consume --bootstrap H:P,... --topic T --partitions N --records N --record-bytes N --acks N --batch-bytes N
 */
#include <librdkafka/rdkafka.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { CHUNK = 10000, STALL_MS = 30000 };

typedef struct {
    const char *bootstrap, *topic, *acks, *batch_bytes;
    long long records;
    int partitions, record_bytes;
} options;

static long long failed;
static int first_error;

static void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("rdk: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char error[512];
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error) != RD_KAFKA_CONF_OK)
        die("%s=%s: %s", name, value, error);
}

/* Called for failures only. */
static void delivered(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque)
{
    (void)client;
    (void)opaque;
    failed++;
    if (!first_error)
        first_error = (int)message->err;
}

static rd_kafka_t *make(rd_kafka_type_t type, rd_kafka_conf_t *conf, const options *want)
{
    char error[512];
    set(conf, "bootstrap.servers", want->bootstrap);
    rd_kafka_t *client = rd_kafka_new(type, conf, error, sizeof error);
    if (!client)
        die("%s", error);
    return client;
}

static void report(long long records, long long bytes, long long start_ns, long long end_ns)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    printf("{\"records\": %lld, \"failed_records\": %lld, \"first_error\": %d, \"requests\": 0, \"bytes\": %lld, "
           "\"first_send_ns\": %lld, \"last_ack_ns\": %lld, \"cpu_s\": %.3f, "
           "\"latency_us\": {\"count\": 0, \"p50\": -1, \"p99\": -1, \"p999\": -1, \"max\": -1}}\n",
           records, failed, first_error, bytes, start_ns, end_ns, cpu);
}

static int produce(const options *want)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "acks", want->acks);
    set(conf, "batch.size", want->batch_bytes);
    set(conf, "batch.num.messages", "1000000");
    set(conf, "queue.buffering.max.messages", "1000000");
    set(conf, "queue.buffering.max.kbytes", "262144");
    set(conf, "max.in.flight", "5");
    set(conf, "message.max.bytes", "1100000");
    set(conf, "delivery.report.only.error", "true");
    rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    rd_kafka_t *client = make(RD_KAFKA_PRODUCER, conf, want);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, want->topic, NULL);
    char *value = malloc((size_t)want->record_bytes);
    rd_kafka_message_t *messages = calloc(CHUNK, sizeof *messages);
    if (!value || !messages || !topic)
        die("no memory");
    for (int i = 0; i < want->record_bytes; i++)
        value[i] = (char)('A' + (i * 7 + i / 26) % 26);

    long long start = now_ns(), sent = 0;
    while (sent < want->records) {
        int count = want->records - sent < CHUNK ? (int)(want->records - sent) : CHUNK;
        for (int i = 0; i < count; i++) {
            messages[i].payload = value;
            messages[i].len = (size_t)want->record_bytes;
            messages[i].partition = (int32_t)((sent + i) % want->partitions);
            messages[i].err = RD_KAFKA_RESP_ERR_NO_ERROR;
        }
        int left = count;
        while (left > 0) {
            int queued = rd_kafka_produce_batch(topic, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_PARTITION, messages, left);
            /* The library puts its verdict into each message; those that found the queue full are tried again. */
            int kept = 0;
            for (int i = 0; queued < left && i < left; i++)
                if (messages[i].err == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
                    messages[kept] = messages[i];
                    messages[kept++].err = RD_KAFKA_RESP_ERR_NO_ERROR;
                } else if (messages[i].err)
                    die("produce: %s", rd_kafka_err2str(messages[i].err));
            left = kept;
            rd_kafka_poll(client, left > 0 ? 1 : 0);
        }
        sent += count;
    }
    if (rd_kafka_flush(client, STALL_MS) != RD_KAFKA_RESP_ERR_NO_ERROR)
        die("not everything was delivered within %d ms", STALL_MS);
    long long end = now_ns();
    report(sent - failed, (sent - failed) * want->record_bytes, start, end);
    return 0;
}

static int consume(const options *want)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "queued.max.messages.kbytes", "65536");
    rd_kafka_t *client = make(RD_KAFKA_CONSUMER, conf, want);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, want->topic, NULL);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_message_t **messages = calloc(CHUNK, sizeof *messages);
    if (!topic || !queue || !messages)
        die("no memory");
    long long start = now_ns(), progress = start, got = 0, bytes = 0;
    for (int p = 0; p < want->partitions; p++)
        if (rd_kafka_consume_start_queue(topic, p, RD_KAFKA_OFFSET_BEGINNING, queue) < 0)
            die("partition %d: %s", p, rd_kafka_err2str(rd_kafka_last_error()));
    while (got < want->records) {
        ssize_t count = rd_kafka_consume_batch_queue(queue, 100, messages, CHUNK);
        for (ssize_t i = 0; i < count; i++) {
            if (messages[i]->err)
                die("consume: %s", rd_kafka_message_errstr(messages[i]));
            bytes += (long long)messages[i]->len;
            rd_kafka_message_destroy(messages[i]);
        }
        if (count > 0) {
            got += count;
            progress = now_ns();
        } else if (now_ns() - progress > STALL_MS * 1000000LL)
            die("%lld of %lld records, then none for %d ms", got, want->records, STALL_MS);
    }
    report(got, bytes, start, now_ns());
    return 0;
}

int main(int count, char **arguments)
{
    options want = {.acks = "-1", .batch_bytes = "16384", .records = 1, .partitions = 1, .record_bytes = 100};
    if (count < 2 || count % 2 != 0)
        die("usage: rdk produce|consume --bootstrap H:P,... --topic T [--option value ...]");
    for (int i = 2; i < count; i += 2) {
        const char *name = arguments[i], *value = arguments[i + 1];
        if (strcmp(name, "--bootstrap") == 0)
            want.bootstrap = value;
        else if (strcmp(name, "--topic") == 0)
            want.topic = value;
        else if (strcmp(name, "--acks") == 0)
            want.acks = value;
        else if (strcmp(name, "--batch-bytes") == 0)
            want.batch_bytes = value;
        else if (strcmp(name, "--records") == 0)
            want.records = atoll(value);
        else if (strcmp(name, "--partitions") == 0)
            want.partitions = atoi(value);
        else if (strcmp(name, "--record-bytes") == 0)
            want.record_bytes = atoi(value);
        else
            die("unknown option %s", name);
    }
    if (!want.bootstrap || !want.topic)
        die("--bootstrap and --topic are needed");
    if (strcmp(arguments[1], "produce") == 0)
        return produce(&want);
    if (strcmp(arguments[1], "consume") == 0)
        return consume(&want);
    die("unknown command %s: produce or consume", arguments[1]);
}
