package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"poold/internal/history"
	"poold/internal/redisdb"
)

const (
	// arrivalsKept is how long Redis keeps the arrivals of a UTC hour after the last write to this
	// hour. It is longer than 24 hours, so that the last 24 hours are complete.
	arrivalsKept = 25 * time.Hour
	// arrivalsBatch limits the minutes that are written in one round trip to Redis.
	arrivalsBatch = 200
)

// Arrivals is a history.ArrivalStore. Its keys contain the name of the target, so that a target keeps
// its arrivals when its identity changes.
type Arrivals struct{ db *redisdb.DB }

// NewArrivals returns an Arrivals that uses db. The caller opens, runs and closes db.
func NewArrivals(db *redisdb.DB) *Arrivals {
	declare(db)
	return &Arrivals{db}
}

func (s *Arrivals) key(target string, hour time.Time) string {
	return s.db.Prefix + ":arrivals:{" + target + "}:" + hour.UTC().Format("2006-01-02T15")
}

// Write implements history.ArrivalStore. After an error some of the minutes may be in Redis.
func (s *Arrivals) Write(ctx context.Context, minutes []history.StoredMinute) error {
	for len(minutes) > 0 {
		n := min(len(minutes), arrivalsBatch)
		if err := s.write(ctx, minutes[:n]); err != nil {
			return err
		}
		minutes = minutes[n:]
	}
	return nil
}

func (s *Arrivals) write(ctx context.Context, minutes []history.StoredMinute) error {
	pipe := s.db.Slow.Pipeline()
	for _, m := range minutes {
		key := s.key(m.Target, m.Minute)
		pipe.HSet(ctx, key, strconv.Itoa(m.Minute.UTC().Minute())+":"+s.db.Replica, m.Text)
		pipe.PExpire(ctx, key, arrivalsKept)
	}
	_, err := pipe.Exec(ctx)
	return err
}

// Read returns the minutes of a target from all replicas. It reads whole UTC hours, from the hour
// of the argument `from` up to the hour of the argument `to`.
func (s *Arrivals) Read(ctx context.Context, target string, from, to time.Time) ([]history.StoredMinute, error) {
	var all []history.StoredMinute
	for hour := from.UTC().Truncate(time.Hour); !hour.After(to); hour = hour.Add(time.Hour) {
		key := s.key(target, hour)
		fields, err := s.hour(ctx, key)
		if err != nil {
			return nil, err
		}
		for name, text := range fields {
			number, _, _ := strings.Cut(name, ":")
			minute, err := strconv.ParseUint(number, 10, 8)
			if err != nil {
				return nil, fmt.Errorf("history: %q in %s does not begin with a minute: %w", name, key, err)
			}
			all = append(all, history.StoredMinute{Target: target, Minute: hour.Add(time.Duration(minute) * time.Minute), Text: text})
		}
	}
	return all, nil
}

func (s *Arrivals) hour(ctx context.Context, key string) (map[string]string, error) {
	fields, err := s.db.Slow.HGetAll(ctx, key).Result()
	return fields, s.db.Explain(ctx, err, []string{key})
}
