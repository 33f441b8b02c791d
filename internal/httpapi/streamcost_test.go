package httpapi

import (
	"context"
	"fmt"
	"net"
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

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/redisdb/redistest"
	"poold/internal/targets"
	"poold/internal/testkit"
)

type readers struct {
	bytes atomic.Int64 // bytes that all streams have read
	begun atomic.Int64 // number of streams that have got data
	stop  context.CancelFunc
	ended sync.WaitGroup
}

// openStreams opens n streams with this query, and waits until each stream has got an event.
func (d *daemon) openStreams(t testing.TB, n int, query string) *readers {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r := &readers{stop: stop}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // checks no schema, which costs more than a stream
	for range n {
		request := d.request(t, "GET", "/status/stream"+query, nil).WithContext(ctx)
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
	testkit.Within(t, 20*time.Second, "the streams begin", func() bool { return r.begun.Load() == int64(n) })
	return r
}

// close closes the streams and waits until the client has closed all connections.
func (r *readers) close() {
	r.stop()
	r.ended.Wait()
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	noError(t, err)
	return len(list)
}

// TestStreamsLeaveNoGoroutineOrDescriptor: an ended stream leaves neither a goroutine nor a file
// descriptor, whether the reader or the daemon ended the stream.
func TestStreamsLeaveNoGoroutineOrDescriptor(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.openStreams(t, 1, "").close() // the first stream starts goroutines that stay on purpose
	d.client.CloseIdleConnections()
	files, routines, same := 0, 0, 0
	testkit.Within(t, 20*time.Second, "it is quiet", func() bool {
		same++
		if f, r := openFiles(t), runtime.NumGoroutine(); f != files || r != routines {
			files, routines, same = f, r, 0
		}
		time.Sleep(20 * time.Millisecond)
		return same == 10
	})
	for _, end := range []func(*readers){(*readers).close, func(r *readers) { d.Stopping(); r.ended.Wait() }} {
		end(d.openStreams(t, 100, ""))
		d.client.CloseIdleConnections()
		testkit.Within(t, 20*time.Second, "nothing is left", func() bool { return openFiles(t) <= files && runtime.NumGoroutine() <= routines })
	}
}

// realCrowd returns a daemon with n targets on a real Redis server, and a function that counts the
// commands to this server.
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
		noError(t, err)
		_, rest, _ := strings.Cut(text, "total_commands_processed:")
		count, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]))
		noError(t, err)
		return count
	}
}

// burden returns the number of Redis commands that n open streams cause, per snapshot and per
// second.
func (d *daemon) burden(t testing.TB, n, snapshots int, commands func() int) (each, second float64) {
	t.Helper()
	defer d.openStreams(t, n, "").close()
	surveys := (len(d.config.Current().Targets) + 49) / 50 // number of surveys per snapshot
	taken := func() int { return d.stock.countCalls("survey") / surveys }
	next := func() (count int) { // counts the commands after the next snapshot, while the feed is idle
		was := taken()
		testkit.Within(t, 20*time.Second, "another snapshot", func() bool { return taken() > was })
		testkit.Within(t, 20*time.Second, "its end", func() bool {
			before := commands()
			time.Sleep(20 * time.Millisecond)
			count = commands()
			return count-before < 10 // the count itself and the monitoring of Redis also cause commands
		})
		return count
	}
	before, first, began := next(), taken(), time.Now()
	after := before
	for range snapshots {
		after = next()
	}
	cost := float64(after - before)
	return cost / float64(taken()-first), cost / time.Since(began).Seconds()
}

// TestStreamsShareSnapshots: a hundred streams of 500 targets cause as many Redis commands per
// snapshot as one stream. status.TestFeedIsShared limits the snapshots per second.
func TestStreamsShareSnapshots(t *testing.T) {
	d, commands := realCrowd(t, 500)
	one, _ := d.burden(t, 1, 2, commands)
	hundred, _ := d.burden(t, 100, 2, commands)
	t.Logf("%.0f commands a snapshot of one stream, %.0f of a hundred: %.2f times as many", one, hundred, hundred/one)
	if hundred > 1.1*one {
		t.Errorf("%.2f times as many commands as of one stream", hundred/one)
	}
}

// BenchmarkStreamsOnRedis measures the Redis commands per second of one stream and of a hundred
// streams.
func BenchmarkStreamsOnRedis(b *testing.B) {
	d, commands := realCrowd(b, 500)
	for b.Loop() {
		_, one := d.burden(b, 1, 60, commands)
		_, hundred := d.burden(b, 100, 60, commands)
		b.ReportMetric(one, "commands/s-of-1")
		b.ReportMetric(hundred, "commands/s-of-100")
		b.ReportMetric(hundred/one, "ratio")
	}
}

// BenchmarkStream measures the cost per second of one stream and of each further stream. The cost
// is the number of bytes, and the processor time of the whole process, which also reads the
// streams. Every target has requests each minute, and one target in ten changes from snapshot to
// snapshot. With the query minutes=0, the streams omit these minutes. At each full minute all targets
// change, because the oldest of their minutes ends. This adds a whole document, whose size is B-whole,
// and is not in the cost per second.
func BenchmarkStream(b *testing.B) {
	for targets, more := range map[int]int{10: 100, 500: 100, 10_000: 20} {
		for name, query := range map[string]string{"60": "", "0": "?minutes=0"} {
			b.Run(fmt.Sprintf("targets=%d/minutes=%s", targets, name), func(b *testing.B) {
				d := startCrowd(b, targets, 60)
				for b.Loop() {
					one, cpuOfOne := d.cost(b, 1, query)
					many, cpuOfMany := d.cost(b, 1+more, query)
					b.ReportMetric(float64(d.documentSize(b, query)), "B-whole")
					b.ReportMetric(one, "B/s-of-1")
					b.ReportMetric(1000*cpuOfOne, "cpu-ms/s-of-1")
					b.ReportMetric((many-one)/float64(more), "B/s-more")
					b.ReportMetric(1000*(cpuOfMany-cpuOfOne)/float64(more), "cpu-ms/s-more")
				}
			})
		}
	}
}

// cost returns the number of bytes that n streams with this query receive per second, and the seconds of processor
// time that they use per second.
func (d *daemon) cost(b *testing.B, n int, query string) (bytes, cpu float64) {
	r := d.openStreams(b, n, query)
	defer r.close()
	whole := d.documentSize(b, query)
	testkit.Within(b, time.Minute, "each stream has got the whole document", func() bool { return r.bytes.Load() >= int64(n)*whole })
	time.Sleep(2 * time.Second)
	if second := time.Now().Second(); second > 38 {
		time.Sleep(time.Duration(62-second) * time.Second)
	}
	read, used, began := r.bytes.Load(), processorTime(b), time.Now()
	time.Sleep(20 * time.Second)
	took := time.Since(began).Seconds()
	return float64(r.bytes.Load()-read) / took, (processorTime(b) - used).Seconds() / took
}

// documentSize returns the number of bytes of the document that a stream with this query sends first.
func (d *daemon) documentSize(b *testing.B, query string) int64 {
	snapshot := d.status.Snapshot(b.Context())
	if query != "" {
		snapshot = snapshot.WithoutMinutes()
	}
	return int64(len(snapshot.JSON()))
}

func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// crowd is the stock of many targets, without a server. At each survey, one target in ten has new
// figures.
type crowd struct {
	like pool.Stock // stock of each target

	mu      sync.Mutex
	members map[captcha.ID]*member
}

type member struct{ number, surveys int }

func (c *crowd) survey(queries []pool.Query) []pool.Stock {
	c.mu.Lock()
	defer c.mu.Unlock()
	stocks := make([]pool.Stock, len(queries))
	for i, q := range queries {
		m := c.members[q.ID]
		if m == nil {
			m = &member{number: len(c.members)}
			c.members[q.ID] = m
		}
		m.surveys++
		turn := (m.number + m.surveys) / 10
		s := c.like
		s.Fresh, s.Outliving, s.Orders = turn%6, turn%6, 5-turn%6
		s.Figures.Requests += int64(turn)
		s.Figures.Hits += int64(turn)
		stocks[i] = s
	}
	return stocks
}

// manyTargets adds n targets to a Set. The names of the targets are t00000, t00001 and so on.
func manyTargets(set *targets.Set, n int) *targets.Set {
	for i := range n {
		target := set.Targets[0]
		target.Name, target.Owner = fmt.Sprintf("t%05d", i), fmt.Sprintf("team-%d", i%3)
		target.Identity.Pageurl = "https://" + target.Name + ".example.com/"
		target.ID = target.Identity.ID()
		set.Targets = append(set.Targets, target)
	}
	return set
}

// startCrowd starts a daemon whose n targets have the stock of a crowd. The argument minutes is the
// number of minutes with requests in the last hour.
func startCrowd(t testing.TB, n, minutes int) *daemon {
	t.Helper()
	return startCrowdBehind(t, n, minutes, nil)
}

// startCrowdBehind is startCrowd with the function wrap for each connection; nil = none.
func startCrowdBehind(t testing.TB, n, minutes int, wrap func(net.Conn) net.Conn) *daemon {
	t.Helper()
	set := manyTargets(sampleSet(), n)
	set.Targets = set.Targets[3:]
	d := start(t, set, wrap, nil)
	hour := "6000 5820 0 180 6300 6000"
	for back := range int64(minutes) {
		hour += fmt.Sprintf("|%d 100 97 0 3 105 100", time.Now().Unix()/60-back)
	}
	id := set.Targets[0].ID
	noError(t, d.stock.redis.Set("captcha:hour:{"+string(id)+"}", hour))
	d.stock.redis.HSet("captcha:stats:{"+string(id)+"}", strings.Fields("requests 6000 hits 5820 misses 180 bought 6300 solved 6000 spent 6000000000")...)
	stocks, err := d.stock.Store.LookAll(t.Context(), []pool.Query{{ID: id, Hour: true}})
	noError(t, err)
	d.stock.crowd = &crowd{like: stocks[0], members: map[captcha.ID]*member{}}
	return d
}
