//go:build !race

package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"poold/internal/backoff"
	"poold/internal/history"
	"poold/internal/history/historytest"
	"poold/internal/postgres"
	"poold/internal/postgres/postgrestest"
	"poold/internal/testkit"
)

const quarter = 90 * 24 * time.Hour

// openStore returns the store of one daemon until the test ends. If the server responds, openStore
// creates the schema. It does not run the deletion of expired rows.
func openStore(t testing.TB, address string, limit time.Duration, keep,
	keepAudit time.Duration) (*Tables, *testkit.Log) {
	t.Helper()
	l := &testkit.Log{}
	db, err := postgres.Open(address, limit, l.Logger())
	testkit.NoError(t, err)
	t.Cleanup(db.Close)
	_ = db.Migrate(t.Context())
	return New(db, keep, keepAudit), l
}

// Two replicas pass the suite while both delete expired rows. No deadlock occurs. Rows are sorted by the bytes of their
// IDs, although the database sorts texts by the rules of a language.
func testSuite(t *testing.T, server *postgrestest.Cluster) {
	server.SQL(t, "postgres", "create database english template template0 locale_provider icu icu_locale 'en'")
	testkit.Equal(t, "a < B", server.SQL(t, "english", "select 'a' < 'B'"), "t")
	address, stop := server.Address("english"), func() {}
	one, _ := openStore(t, address, postgrestest.Patience, quarter, quarter)
	two, _ := openStore(t, address, postgrestest.Patience, quarter, quarter)
	historytest.Test(t, func(t testing.TB, orders, handouts time.Duration) (replicas []history.Sink) {
		stop()
		server.SQL(t, address, "truncate captcha_history, captcha_days")
		var stops []func()
		for _, db := range []*postgres.DB{one.db, two.db} {
			s := New(db, orders, handouts)
			stops = append(stops, testkit.Run(t, func(ctx context.Context) error {
				for backoff.Sleep(ctx, 20*time.Millisecond) == nil {
					_ = s.forget(ctx)
				}
				return nil
			}))
			replicas = append(replicas, s)
		}
		stop = func() { stops[0](); stops[1]() }
		return replicas
	})
	testkit.Equal(t, "deadlocks",
		server.SQL(t, address, "select deadlocks from pg_stat_database where datname = current_database()"), "0")
}

// Sweeps delete expired rows and figures of their kind in small batches, and nothing else. The figures of a day expire
// with the whole day.
func testExpiredRows(t *testing.T, server *postgrestest.Cluster) {
	address := server.Database(t)
	now, day := time.Now(), 24*time.Hour
	limit := now.UTC().Truncate(day).Add(-day - day/2) // noon of the day before yesterday
	old, _ := openStore(t, address, postgrestest.Patience, quarter, quarter)
	rows := []history.Row{historytest.Order("now", now), historytest.Handout("now", now),
		historytest.Order("same day", limit.Add(-time.Hour))}
	for n := range 12 {
		at := limit.Add(time.Hour - time.Duration(n)*day)
		rows = append(rows, historytest.Order(fmt.Sprint(n), at), historytest.Handout(fmt.Sprint(n), at))
	}
	testkit.NoError(t, old.Append(t.Context(), rows))
	server.SQL(t, address, `insert into captcha_history
			select kind, id || '-' || n, at - interval '1 hour', target, owner, sitekey, task, status, key, content
			from captcha_history, generate_series(1, 2500) n where id = '11';
		create table deletions (n bigint);
		create function note() returns trigger language plpgsql as $$
			begin insert into deletions select count(*) from gone; return null; end $$;
		create trigger note after delete on captcha_history referencing old table as gone
			for each statement execute function note()`)
	s, _ := openStore(t, address, postgrestest.Patience, now.Sub(limit), now.Sub(limit)+5*day)
	testkit.NoError(t, s.forget(t.Context()))
	testkit.Equal(t, "what is left", server.SQL(t, address, `select kind, count(*) from captcha_history group by kind
			union all select scope, count(distinct day) from captcha_days group by scope order by 1`),
		"handout|7\nkey|7\norder|2\nprovider|2\ntarget|2\ntype|2")
	testkit.Equal(t, "rows of the largest batch",
		server.SQL(t, address, "select max(n) from deletions"), fmt.Sprint(mostDeleted))
}

// Two replicas append the same rows while connections break in the middle of batches and the replies to commits are
// lost. Each row counts once.
func testBrokenConnections(t *testing.T, server *postgrestest.Cluster) {
	address := server.Database(t)
	thief, through := postgrestest.Through(t, address)
	var rows []history.Row
	for n := range 500 {
		rows = append(rows, historytest.Order(fmt.Sprint(n), time.Now().Add(-time.Duration(n)*time.Second)),
			historytest.Handout(fmt.Sprint(n), time.Now()))
	}
	var senders sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		s, _ := openStore(t, through, postgrestest.Patience, quarter, quarter)
		mine := slices.Clone(rows)
		rand.Shuffle(len(mine), func(a, b int) { mine[a], mine[b] = mine[b], mine[a] })
		senders.Go(func() {
			for over := false; !over; { // once more after the last fault
				select {
				case <-stop:
					over = true
				default:
				}
				for batch := range slices.Chunk(mine, history.MostBatch) {
					testkit.Within(t, postgrestest.Patience, "appended", func() bool { return s.Append(t.Context(), batch) == nil })
				}
			}
		})
	}
	for i := 0; thief.Stolen() < 5; i++ {
		thief.Steal([]string{"commit\x00", "insert into captcha_history", "insert into captcha_days"}[i%3])
		server.SQL(t, address, `select pg_terminate_backend(pid) from pg_stat_activity
			where datname = current_database() and pid <> pg_backend_pid() and state in ('active', 'idle in transaction')`)
	}
	close(stop)
	senders.Wait()
	s, _ := openStore(t, address, postgrestest.Patience, quarter, quarter)
	historytest.Has(t, s, rows...)
}

// While the server is away, each call fails with a history.ErrDown that gives the reason, and no part of the address.
func testAway(t *testing.T, server *postgrestest.Cluster) {
	s, _ := openStore(t, strings.Replace(server.Database(t), "127.0.0.1", "127.0.0.3", 1), postgres.DefaultLimit, quarter,
		quarter)
	_, find := s.Find(t.Context(), history.Query{By: history.BySite, Value: "site", Limit: 1})
	_, days := s.Days(t.Context(), time.Now())
	for i, err := range []error{s.Append(t.Context(), []history.Row{historytest.Order("one", time.Now())}), find, days} {
		if !errors.Is(err, history.ErrDown) || !strings.Contains(err.Error(), ": postgres does not serve: ") {
			t.Fatalf("call %d: %v", i, err)
		}
		postgrestest.Hidden(t, "the error", err.Error())
	}
}

// A full or read-only server is an outage. A row with refused content is not an outage: the Sender drops it.
func testRefusals(t *testing.T, server *postgrestest.Cluster) {
	address := server.Database(t)
	s, _ := openStore(t, address, postgrestest.Patience, quarter, quarter)
	server.SQL(t, address, `create function refuse() returns trigger language plpgsql as $$ begin
			raise exception using errcode = (regexp_split_to_array(new.id, ' '))[2]; end $$;
		create trigger refuse before insert on captcha_history for each row execute function refuse()`)
	for code, down := range map[string]bool{"53100": true, "25006": true, "23514": false, "54000": false} {
		if err := s.Append(t.Context(), []history.Row{historytest.Order("error "+code, time.Now())}); errors.Is(err,
			history.ErrDown) != down || !strings.Contains(err.Error(), code) {
			t.Errorf("%s: %v", code, err)
		}
	}
}

func TestOnAServer(t *testing.T) {
	postgrestest.On(t, map[string]func(*testing.T, *postgrestest.Cluster){
		"Suite": testSuite, "Indexes": testIndexes, "ExpiredRows": testExpiredRows,
		"BrokenConnections": testBrokenConnections, "Away": testAway, "Refusals": testRefusals,
	})
}
