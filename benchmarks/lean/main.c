/* lean: a load generator for brokers that speak the Kafka protocol. `lean produce|consume|probe --name value ...` */
#include "cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void parse_bootstrap(options *want, char *text)
{
    for (char *one = strtok(text, ","); one; one = strtok(NULL, ",")) {
        char *colon = strrchr(one, ':');
        if (!colon || want->bootstrap_count == BROKERS_MAX)
            die("--bootstrap: %s is not host:port, or there are more than %d", one, BROKERS_MAX);
        address *where = &want->bootstrap[want->bootstrap_count++];
        snprintf(where->host, sizeof where->host, "%.*s", (int)(colon - one), one);
        where->port = atoi(colon + 1);
    }
}

int main(int count, char **arguments)
{
    options want = {.acks = -1, .record_bytes = 100, .batch_bytes = 16384, .in_flight = 5, .records = 1,
                    .request_max_bytes = 1048576, .seconds = 1, .min_bytes = 1};
    if (count < 2)
        die("usage: lean produce|consume|probe --bootstrap HOST:PORT,... --topic NAME [--option value ...]");
    want.command = arguments[1];
    struct {
        const char *name;
        int *value;
    } numbers[] = {{"--acks", &want.acks},           {"--record-bytes", &want.record_bytes},
                   {"--batch-bytes", &want.batch_bytes}, {"--in-flight", &want.in_flight},
                   {"--linger-us", &want.linger_us}, {"--skip-ms", &want.skip_ms},
                   {"--request-max-bytes", &want.request_max_bytes}, {"--min-bytes", &want.min_bytes}};
    for (int i = 2; i + 1 < count; i += 2) {
        const char *name = arguments[i];
        char *value = arguments[i + 1];
        int known = 1;
        if (strcmp(name, "--bootstrap") == 0)
            parse_bootstrap(&want, value);
        else if (strcmp(name, "--topic") == 0)
            want.topic = value;
        else if (strcmp(name, "--records") == 0)
            want.records = atoll(value);
        else if (strcmp(name, "--rate") == 0)
            want.rate = atof(value);
        else if (strcmp(name, "--due-rate") == 0)
            want.due_rate = atof(value);
        else if (strcmp(name, "--start-ns") == 0)
            want.start_ns = atoll(value);
        else if (strcmp(name, "--seconds") == 0)
            want.seconds = atof(value);
        else {
            known = 0;
            for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
                if (strcmp(name, numbers[n].name) == 0) {
                    *numbers[n].value = atoi(value);
                    known = 1;
                }
        }
        if (!known)
            die("unknown option %s", name);
    }
    if (count % 2 != 0)
        die("%s has no value", arguments[count - 1]);
    if (!want.topic || want.bootstrap_count == 0)
        die("--topic and --bootstrap are needed");
    if (want.in_flight < 1 || want.in_flight > 64)
        die("--in-flight %d: must be from 1 to 64", want.in_flight);
    if (strcmp(want.command, "produce") == 0)
        return run_produce(&want);
    if (strcmp(want.command, "consume") == 0)
        return run_consume(&want);
    if (strcmp(want.command, "probe") == 0)
        return run_probe(&want);
    die("unknown command %s: produce, consume or probe", want.command);
}
