//go:build !race

package redisstore_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"poold/internal/history"
	"poold/internal/history/historytest"
	"poold/internal/history/redisstore"
	"poold/internal/redisdb"
	"poold/internal/redisdb/redistest"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	redistest.Main(m)
}

var prefixes atomic.Int64

func openDB(t testing.TB, p redistest.Place, prefix string) *redisdb.DB {
	t.Helper()
	db, err := redisdb.Open(redisdb.Options{
		Addresses: p.Addresses, SentinelMaster: p.SentinelMaster, Dial: p.Dial, Prefix: prefix, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// Stores on a single server and on a cluster pass the suites.
func TestStore(t *testing.T) {
	for name, addresses := range map[string]string{
		"single":  "redis://" + redistest.Server(t),
		"cluster": "redis://" + strings.Join(redistest.Cluster(t), ",redis://"),
	} {
		t.Run(name, func(t *testing.T) {
			historytest.Test(t, openStores(redistest.Place{Addresses: addresses}))
			historytest.TestAudit(t, openAudits(redistest.Place{Addresses: addresses}))
		})
	}
}

// On the embedded server only a part of the suites runs, because this server is slow.
func TestEmbedded(t *testing.T) {
	open := openStores(redistest.Place{Addresses: "redis://embedded", Dial: redistest.Embedded(t).Dial})
	for _, name := range []string{"RecordsComeBackWhole", "RepeatedRecordsCountOnce", "PagesFollowEachOther", "FiguresOfADay"} {
		t.Run(name, func(t *testing.T) { historytest.Suite[name](t, open) })
	}
	openAudit := openAudits(redistest.Place{Addresses: "redis://embedded", Dial: redistest.Embedded(t).Dial})
	for _, name := range []string{"EntriesComeBackWhole", "RepeatedEntriesCountOnce", "EntriesOfOneMillisecond", "PagesOfEntries", "ADayByKey"} {
		t.Run(name, func(t *testing.T) { historytest.AuditSuite[name](t, openAudit) })
	}
}

// openStores returns a function that opens two stores of one Redis under a new prefix.
func openStores(p redistest.Place) historytest.Open {
	return func(t testing.TB) []history.Store {
		s := stores(t, p)
		return []history.Store{s[0], s[1]}
	}
}

// openAudits returns a function that opens two audits of one Redis under a new prefix.
func openAudits(p redistest.Place) historytest.OpenAudit {
	return func(t testing.TB) []history.Audit {
		s := stores(t, p)
		return []history.Audit{s[0], s[1]}
	}
}

func stores(t testing.TB, p redistest.Place) (s [2]*redisstore.Store) {
	prefix := fmt.Sprint("history", prefixes.Add(1))
	for i := range s {
		s[i] = redisstore.New(openDB(t, p, prefix), redisstore.Options{})
	}
	return s
}

// Random stories pass on the embedded server. The stories also move the server's clock.
func TestStories(t *testing.T) {
	historytest.Stories(t, 5, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			server := redistest.InBubble(t)
			o := redisstore.Options{Keep: historytest.StoryKeep, KeepAudit: historytest.StoryKeep}
			place := historytest.Place{Down: server.SetDown, Bubble: true}
			for range 2 {
				s := redisstore.New(openDB(t, redistest.Place{Addresses: redistest.BubbleAddress, Dial: server.Dial}, "history"), o)
				place.Stores, place.Audits = append(place.Stores, s), append(place.Audits, s)
			}
			historytest.Play(t, seed, place)
		})
	})
}
