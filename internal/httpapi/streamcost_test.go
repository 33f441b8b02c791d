package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/pool"
	"poold/internal/pool/redistest"
)

// readers are open streams that read what they are sent.
type readers struct {
	bytes atomic.Int64 // read by all of them
	begun atomic.Int64 // those that were sent something
	stop  context.CancelFunc
	ended sync.WaitGroup
}

// read opens so many streams, and returns when each has been sent something.
func (d *daemon) read(t testing.TB, n int) *readers {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r := &readers{stop: stop}
	client := &http.Client{Transport: d.client.Transport}
	for range n {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.addr+"/status/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.ended.Go(func() {
			answer, err := client.Do(request)
			if err != nil {
				return
			}
			defer func() { _ = answer.Body.Close() }()
			buffer, first := make([]byte, 1<<16), true
			for {
				n, err := answer.Body.Read(buffer)
				r.bytes.Add(int64(n))
				if err != nil {
					return
				}
				if first {
					r.begun.Add(1)
					first = false
				}
			}
		})
	}
	eventually(t, "the streams begin", func() bool { return r.begun.Load() == int64(n) })
	return r
}

// close cuts them, and returns when that is over at this end.
func (r *readers) close() {
	r.stop()
	r.ended.Wait()
}

// openFiles are the descriptors of this process.
func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestStreamsLeaveNothing: of streams that their readers cut, and of those that the daemon
// ends, neither a goroutine nor a descriptor is left.
func TestStreamsLeaveNothing(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.read(t, 1).close() // what the first one leaves on purpose is there
	d.client.CloseIdleConnections()
	files, routines, same := 0, 0, 0
	eventually(t, "it is quiet", func() bool {
		same++
		if f, r := openFiles(t), runtime.NumGoroutine(); f != files || r != routines {
			files, routines, same = f, r, 0
		}
		time.Sleep(20 * time.Millisecond)
		return same == 10
	})
	for _, end := range []func(*readers){(*readers).close, func(r *readers) { d.Stopping(); r.ended.Wait() }} {
		end(d.read(t, 100))
		d.client.CloseIdleConnections()
		eventually(t, "nothing is left", func() bool { return openFiles(t) <= files && runtime.NumGoroutine() <= routines })
	}
}

// realCrowd is a daemon with n targets on a Redis server of its own, whose commands it counts.
func realCrowd(t testing.TB, n int) (d *daemon, commands func() int) {
	addr := redistest.Server(t)
	set := manyTargets(sampleSet(), n)
	set.Targets = set.Targets[3:]
	d = start(t, set, nil, nil)
	d.stock.Store = runStore(t, pool.Options{Addresses: "redis://" + addr, Prefix: "test"})
	client := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	return d, func() int {
		text, err := client.Info(context.Background(), "stats").Result()
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(text, "total_commands_processed:")
		count, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]))
		if err != nil {
			t.Fatal(err)
		}
		return count
	}
}

// perSecond are the commands a second while n streams are open, over so many snapshots.
func (d *daemon) perSecond(t testing.TB, n, snapshots int, commands func() int) float64 {
	defer d.read(t, n).close()
	surveys := (len(d.config.Current().Targets) + 49) / 50 // of one snapshot
	begin := func() {                                      // with a snapshot, so that no part of one is counted
		was := d.stock.count("survey") / surveys
		eventually(t, "another snapshot", func() bool { return d.stock.count("survey")/surveys > was })
	}
	begin()
	before, began := commands(), time.Now()
	for range snapshots {
		begin()
	}
	return float64(commands()-before) / time.Since(began).Seconds()
}

// TestStreamsShareRedis: a hundred streams on 500 targets cost Redis what one costs.
func TestStreamsShareRedis(t *testing.T) {
	d, commands := realCrowd(t, 500)
	for range 4 { // the machine may have better things to do in one of the two
		one := d.perSecond(t, 1, 4, commands)
		hundred := d.perSecond(t, 100, 4, commands)
		t.Logf("%.0f commands a second of one stream, %.0f of a hundred: %.2f times as many", one, hundred, hundred/one)
		if hundred <= 1.1*one {
			return
		}
	}
	t.Error("a hundred streams cost more than 1.1 times the commands of one")
}

// BenchmarkStreamsOnRedis is the same for longer.
func BenchmarkStreamsOnRedis(b *testing.B) {
	d, commands := realCrowd(b, 500)
	for b.Loop() {
		one := d.perSecond(b, 1, 60, commands)
		hundred := d.perSecond(b, 100, 60, commands)
		b.ReportMetric(one, "commands/s-of-1")
		b.ReportMetric(hundred, "commands/s-of-100")
		b.ReportMetric(hundred/one, "ratio")
	}
}

// BenchmarkStream is what streams cost of targets of which one in ten changes from one
// snapshot to the next: bytes and processor time of the whole process, which also reads them,
// per second, and what each stream more adds.
func BenchmarkStream(b *testing.B) {
	for _, targets := range []int{10, 500, 10_000} {
		b.Run(fmt.Sprintf("targets=%d", targets), func(b *testing.B) {
			d := startCrowd(b, targets)
			for b.Loop() {
				one, cpuOfOne := d.cost(b, 1)
				many, cpuOfMany := d.cost(b, 21)
				b.ReportMetric(one, "B/s-of-1")
				b.ReportMetric(1000*cpuOfOne, "cpu-ms/s-of-1")
				b.ReportMetric((many-one)/20, "B/s-more")
				b.ReportMetric(1000*(cpuOfMany-cpuOfOne)/20, "cpu-ms/s-more")
			}
		})
	}
}

// cost is what n streams read a second, and the processor time, in seconds a second.
func (d *daemon) cost(b *testing.B, n int) (bytes, cpu float64) {
	r := d.read(b, n)
	defer r.close()
	time.Sleep(2 * time.Second) // each has the whole document
	read, used, began := r.bytes.Load(), processorTime(b), time.Now()
	time.Sleep(10 * time.Second)
	took := time.Since(began).Seconds()
	return float64(r.bytes.Load()-read) / took, (processorTime(b) - used).Seconds() / took
}

func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
