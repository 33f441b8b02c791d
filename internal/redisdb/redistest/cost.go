package redistest

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Cost is the cost of one call.
type Cost struct {
	Commands    int           // of Redis, including those in scripts; rounded down
	Scripts     int           // that Redis ran; rounded down
	Read, Wrote int           // bytes that Redis read and wrote
	Redis       time.Duration // CPU time of Redis
	Process     time.Duration // CPU time of this process
}

// CostOf makes n calls and returns the mean cost of a call. No other program may use the server.
func CostOf(t testing.TB, address string, n int, call func(i int)) Cost {
	t.Helper()
	before, reply := Totals(t, address)
	for i := range n {
		call(i)
	}
	after, _ := Totals(t, address)
	before.Wrote += reply
	return Cost{
		Commands: (after.Commands - before.Commands) / n, Scripts: (after.Scripts - before.Scripts) / n,
		Read: (after.Read - before.Read) / n, Wrote: (after.Wrote - before.Wrote) / n,
		Redis: (after.Redis - before.Redis) / time.Duration(n), Process: (after.Process - before.Process) / time.Duration(n),
	}
}

// Report adds the cost to the metrics of a benchmark, for each of n parts of a call.
func (c Cost) Report(b *testing.B, n int) {
	for unit, value := range map[string]float64{
		"commands": float64(c.Commands), "read-B": float64(c.Read), "wrote-B": float64(c.Wrote),
		"redis-µs": float64(c.Redis) / 1e3, "process-µs": float64(c.Process) / 1e3,
	} {
		b.ReportMetric(value/float64(n), unit)
	}
}

// Totals returns the sums since the start of Redis and of this process, and the size of the reply with
// them, which the sums lack. The sums also lack the commands INFO, CLIENT and HELLO.
func Totals(t testing.TB, address string) (c Cost, reply int) {
	t.Helper()
	info := Do(t, address, "INFO", "everything")
	sum := func(fields ...string) (sum float64) {
		for line := range strings.Lines(info) {
			for _, field := range fields {
				name, value, is := strings.Cut(strings.TrimSpace(line), field)
				if !is || name == "cmdstat_info" || strings.HasPrefix(name, "cmdstat_client") || name == "cmdstat_hello" {
					continue
				}
				value, _, _ = strings.Cut(value, ",")
				number, err := strconv.ParseFloat(value, 64)
				if err != nil {
					t.Fatal(err)
				}
				sum += number
			}
		}
		return sum
	}
	c.Commands, c.Scripts = int(sum(":calls=")), int(sum("cmdstat_eval:calls=", "cmdstat_evalsha:calls="))
	c.Read, c.Wrote = int(sum("total_net_input_bytes:")), int(sum("total_net_output_bytes:"))
	c.Redis = time.Duration(1e9 * sum("used_cpu_sys:", "used_cpu_user:"))
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	c.Process = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return c, len(info)
}
