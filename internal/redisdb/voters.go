package redisdb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// A failover reaches the other sentinels within settleTime of the first one.
	settleTime = 200 * time.Millisecond
	// distrustTime is how long no client asks a sentinel that most of the sentinels contradict.
	distrustTime = 2 * time.Second
)

// voters are the sentinels of redis.url, which vote on the address of the master. go-redis believes the
// first sentinel that replies. Its dialer here refuses a master that more than half of the replying
// sentinels contradict, and then the contradicted sentinels, so that go-redis asks another one. Without
// a majority each sentinel is believed.
type voters struct {
	master    string // its name
	watchful  *watchful
	sentinels map[string]*redis.SentinelClient // by address

	mu         sync.Mutex
	distrusted map[string]time.Time // contradicted sentinels, and until when they are refused
}

// newVoters makes the voters of a master from the options of its clients. It does no I/O.
func newVoters(o *redis.Options, sentinels []string, master string, dial dialFunc) *voters {
	v := &voters{master: master, watchful: newWatchful(dial), sentinels: map[string]*redis.SentinelClient{}}
	for _, addr := range sentinels {
		one := *o
		one.Addr, one.Dialer, one.DB = addr, v.watchful.Dial, 0
		one.Username, one.Password, one.CredentialsProviderContext = "", "", nil
		one.MaxRetries, one.DialTimeout, one.ReadTimeout, one.WriteTimeout = -1, CallTimeout/2, CallTimeout/2, CallTimeout/2
		v.sentinels[addr] = redis.NewSentinelClient(&one)
	}
	return v
}

// close closes the connections of the votes; v may be nil.
func (v *voters) close() error {
	if v == nil {
		return nil
	}
	var errs []error
	for _, sentinel := range v.sentinels {
		errs = append(errs, sentinel.Close())
	}
	return errors.Join(errs...)
}

// Dial is the dialer of the clients, for sentinels and for the master.
func (v *voters) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if v.sentinels[addr] != nil {
		if v.distrusts(addr) {
			return nil, contradiction("the other sentinels contradict " + addr)
		}
		return v.watchful.Dial(ctx, network, addr)
	}
	if elected := winner(v.vote(ctx, len(v.sentinels)/2)); elected == "" || elected == addr {
		return v.watchful.Dial(ctx, network, addr)
	}
	select {
	case <-time.After(settleTime):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	named := v.vote(ctx, len(v.sentinels))
	if elected := winner(named); elected != "" && elected != addr {
		v.distrust(named, elected)
		return nil, contradiction("a sentinel names " + addr + ", and most name " + elected)
	}
	return v.watchful.Dial(ctx, network, addr)
}

func contradiction(text string) error {
	return &downError{reason: reasonContradicted, cause: errors.New(text)}
}

// vote asks all sentinels and maps those that reply to the address that they name. It returns early if
// more sentinels than enough name the same address.
func (v *voters) vote(ctx context.Context, enough int) map[string]string {
	type ballot struct{ sentinel, master string }
	ballots := make(chan ballot, len(v.sentinels))
	for addr, sentinel := range v.sentinels {
		go func() {
			master := ""
			if parts, err := sentinel.GetMasterAddrByName(ctx, v.master).Result(); err == nil && len(parts) == 2 {
				master = net.JoinHostPort(parts[0], parts[1])
			}
			ballots <- ballot{addr, master}
		}()
	}
	named, votes := map[string]string{}, map[string]int{}
	for range v.sentinels {
		b := <-ballots
		if b.master == "" {
			continue
		}
		named[b.sentinel] = b.master
		if votes[b.master]++; votes[b.master] > enough {
			break
		}
	}
	return named
}

// winner returns the address that more than half of the replying sentinels name; "" = none.
func winner(named map[string]string) string {
	votes := map[string]int{}
	for _, master := range named {
		if votes[master]++; votes[master] > len(named)/2 {
			return master
		}
	}
	return ""
}

// agree reports whether all replying sentinels name the same address.
func agree(named map[string]string) bool {
	return len(slices.Compact(slices.Sorted(maps.Values(named)))) < 2
}

// distrust refuses the sentinels that name another master than the elected one.
func (v *voters) distrust(named map[string]string, elected string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.distrusted = map[string]time.Time{}
	for sentinel, master := range named {
		if master != elected {
			v.distrusted[sentinel] = time.Now().Add(distrustTime)
			v.watchful.server(sentinel).drop()
		}
	}
}

func (v *voters) distrusts(sentinel string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return time.Now().Before(v.distrusted[sentinel])
}

// dispute returns a sentence if the sentinels contradict each other for longer than a failover takes to
// reach all of them; v may be nil.
func (v *voters) dispute(ctx context.Context) []string {
	if v == nil {
		return nil
	}
	named := v.vote(ctx, len(v.sentinels))
	if agree(named) {
		return nil
	}
	select {
	case <-time.After(5 * settleTime):
	case <-ctx.Done():
		return nil
	}
	if named = v.vote(ctx, len(v.sentinels)); agree(named) {
		return nil
	}
	elected := winner(named)
	var minority []string
	for sentinel, master := range named {
		if master != elected {
			minority = append(minority, sentinel+" names "+master)
		}
	}
	slices.Sort(minority)
	follows := "most of the sentinels name " + elected + ", and poold follows them"
	if elected == "" {
		follows = "no address has a majority, and poold follows any of them"
	}
	return []string{fmt.Sprintf("The sentinels contradict each other about the master %s: %s; %s; repair their configuration",
		v.master, strings.Join(minority, ", "), follows)}
}
