//go:build !race

package pgstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/postgres"
	"poold/internal/postgres/postgrestest"
	"poold/internal/testkit"
)

// makeRecords returns n records of the last hours for a few targets.
func makeRecords(n int) []history.Record {
	records := make([]history.Record, n)
	for i := range records {
		r := record(fmt.Sprint(i), time.Now().Add(-time.Duration(i)*10*time.Second))
		r.How = []history.How{history.Solved, history.Failed, history.Lost}[i%3]
		r.Target, r.Type = fmt.Sprintf("target-%d", i%7), captcha.Types()[i%3]
		records[i] = r
	}
	return records
}

// checkExact checks that each record exists and that the figures are the sums of the records.
func checkExact(t *testing.T, s *Store, records []history.Record) {
	t.Helper()
	want := map[string]map[history.Owned]history.Figures{}
	for _, r := range records {
		date, owned := r.Ended.Format(time.DateOnly), history.Owned{Target: r.Target, Owner: r.Owner}
		if want[date] == nil {
			want[date] = map[history.Owned]history.Figures{}
		}
		want[date][owned] = want[date][owned].Plus(r.Figures())
		if got, found, err := s.Solve(t.Context(), r.ID); err != nil || !found || got != r {
			t.Fatalf("a record: %+v, %v, %v; want %+v", got, found, err, r)
		}
	}
	for date, targets := range want {
		day, err := time.Parse(time.DateOnly, date)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Day(t.Context(), day); err != nil || !maps.Equal(got.Targets, targets) {
			t.Errorf("%s: %v, %v; want %v", date, got.Targets, err, targets)
		}
	}
}

// writeAgain repeats a write until it succeeds.
func writeAgain(t *testing.T, s *Store, batch []history.Record) {
	t.Helper()
	for began := time.Now(); ; {
		err := s.Write(t.Context(), batch)
		if err == nil {
			return
		}
		if !errors.Is(err, history.ErrDown) || time.Since(began) > postgrestest.Patience {
			t.Errorf("writing: %v", err)
			return
		}
	}
}

// Two replicas write the same records while connections break in the middle of batches and the
// replies to commits are lost. Each record counts once.
func testBrokenConnections(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	thief, through := postgrestest.Through(t, address)
	killer, _ := openStore(t, address, postgrestest.Patience, 0)
	records := makeRecords(1000)
	var writers sync.WaitGroup
	enough := make(chan struct{})
	killed := 0
	writers.Go(func() {
		defer close(enough)
		for i := 0; (killed < 30 || thief.Stolen() < 3) && !t.Failed(); i++ {
			time.Sleep(time.Duration(i%7) * 10 * time.Millisecond)
			if i%5 == 0 {
				thief.Steal("commit\x00")
			}
			// The statement ends all connections that are in a transaction.
			if err := killer.db.Do(t.Context(), func(ctx context.Context, tx postgres.Tx) error {
				n := 0
				defer func() { killed += n }()
				return tx.First(ctx, []any{&n}, `select count(pg_terminate_backend(pid)) from pg_stat_activity
					where datname = current_database() and pid <> pg_backend_pid() and state in ('active', 'idle in transaction')`)
			}); err != nil {
				t.Errorf("killing: %v", err)
			}
		}
	})
	for i := range 2 {
		// With a limit of 100 ms some calls fail and are repeated.
		s, _ := openStore(t, through, []time.Duration{postgrestest.Patience, 100 * time.Millisecond}[i], 0)
		testkit.Within(t, postgrestest.Patience, "a schema", func() bool { return s.db.Migrate(t.Context()) == nil })
		mine := slices.Clone(records)
		if i == 1 {
			slices.Reverse(mine)
		}
		writers.Go(func() {
			for over := false; !over; { // after the last broken connection, the loop writes once more
				select {
				case <-enough:
					over = true
				default:
				}
				for batch := range slices.Chunk(mine, history.MostBatch) {
					writeAgain(t, s, batch)
				}
			}
		})
	}
	writers.Wait()
	t.Logf("%d connections were ended, and %d answers lost", killed, thief.Stolen())
	checkExact(t, killer, records)
}

func callAll(t *testing.T, s *Store, batch []history.Record) []error {
	t.Helper()
	q := history.Query{Limit: 1}
	_, site := s.Site(t.Context(), "site", q)
	_, tasks := s.Tasks(t.Context(), history.StatusSolved, q)
	_, day := s.Day(t.Context(), time.Now())
	_, _, solve := s.Solve(t.Context(), batch[0].ID)
	_, entries := s.Entries(t.Context(), "key", q)
	_, keys := s.KeyDay(t.Context(), time.Now())
	note := s.WriteEntries(t.Context(), []history.Entry{{ID: batch[0].ID, Key: "key", At: batch[0].Ended, Action: history.Taken}})
	return []error{s.Write(t.Context(), batch), site, tasks, day, solve, entries, keys, note}
}

// During an outage each call fails soon with a history.ErrDown that gives the reason. No error and no
// log line contains a part of the address. After the recovery all calls succeed, and the records
// written before the outage are complete.
func testOutages(t *testing.T, server *postgrestest.Server) {
	address := server.Database(t)
	s, logs := openStore(t, address, 0, 0)
	postgrestest.Run(t, s.Run)
	records := makeRecords(400)
	testkit.Within(t, postgrestest.Patience, "the first batch", func() bool { return s.Write(t.Context(), records[:100]) == nil })
	written := 100
	for name, outage := range server.Outages(t) {
		t.Run(name, func(t *testing.T) {
			batch := records[written:][:100]
			written += 100
			outage.Begin()
			began := time.Now()
			errs := callAll(t, s, batch)
			if took := time.Since(began); took > time.Duration(len(errs))*3*time.Second {
				t.Errorf("%d calls took %v", len(errs), took)
			}
			for i, err := range errs {
				if !errors.Is(err, history.ErrDown) || !strings.Contains(err.Error(), ": postgres does not serve: ") {
					t.Errorf("call %d: %v", i, err)
					continue
				}
				postgrestest.Hidden(t, "the error", err.Error())
			}
			outage.End()
			testkit.Within(t, postgrestest.Patience, "healed", func() bool { return errors.Join(callAll(t, s, batch)...) == nil })
		})
	}
	calm, _ := openStore(t, address, postgrestest.Patience, 0)
	checkExact(t, calm, records)
	postgrestest.Hidden(t, "the log", logs.String())
}
