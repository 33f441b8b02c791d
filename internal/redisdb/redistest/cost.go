package redistest

import (
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"poold/internal/testkit"
)

// Cost is the cost of calls.
type Cost struct {
	Commands    float64       // of Redis, including those in scripts
	Scripts     float64       // that Redis ran
	Read, Wrote float64       // bytes that Redis read and wrote
	Redis       time.Duration // CPU time of Redis
	Process     time.Duration // CPU time of this process
}

// Report makes calls and adds the mean cost of a call to the metrics of a benchmark, for each of n parts of the call. No
// other program may use the server.
func Report(b *testing.B, address string, n int, call func(i int)) {
	before, reply := Totals(b, address)
	for i := range b.N {
		call(i)
	}
	after, _ := Totals(b, address)
	for unit, value := range map[string]float64{
		"commands": after.Commands - before.Commands, "read-B": after.Read - before.Read, "wrote-B": after.Wrote - before.Wrote - reply,
		"redis-µs": float64(after.Redis-before.Redis) / 1e3, "process-µs": float64(after.Process-before.Process) / 1e3,
	} {
		b.ReportMetric(value/float64(b.N*n), unit)
	}
}

// Totals returns the sums since the start of Redis and of this process, and the size of the reply with
// them, which the sums lack. The sums also lack the commands INFO, CLIENT and HELLO.
func Totals(t testing.TB, address string) (c Cost, reply float64) {
	t.Helper()
	info := Do(t, address, "INFO", "everything")
	counted := regexp.MustCompile(`(?m)^cmdstat_(info|client|hello).*$`).ReplaceAllString(info, "")
	sum := func(pattern string) (sum float64) {
		for _, found := range regexp.MustCompile(`(?m)^`+pattern+`([\d.]+)`).FindAllStringSubmatch(counted, -1) {
			number, _ := strconv.ParseFloat(found[1], 64)
			sum += number
		}
		return sum
	}
	var usage syscall.Rusage
	testkit.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return Cost{
		sum(`cmdstat_\S+:calls=`), sum(`cmdstat_eval(?:sha)?:calls=`),
		sum("total_net_input_bytes:"), sum("total_net_output_bytes:"),
		time.Duration(1e9 * sum("used_cpu_(?:sys|user):")), time.Duration(usage.Utime.Nano() + usage.Stime.Nano()),
	}, float64(len(info))
}
