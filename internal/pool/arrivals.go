package pool

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"poold/internal/redisdb"
)

const (
	// arrivalsKept is how long a UTC hour is kept after it was written last: whatever
	// came in the last 24 h is there.
	arrivalsKept = 25 * time.Hour
	// arrivalsBatch is how many minutes are written in one exchange.
	arrivalsBatch = 200
)

// Arrivals are when requests came, by the name of a target, so that they outlive its
// identity. It knows nothing of what stands in a minute.
type Arrivals struct{ *client }

// Arrived is what came for a target at one replica in one minute.
type Arrived struct {
	Target string
	Minute time.Time // UTC; its seconds do not count
	Text   string
}

// Write keeps minutes of this replica, each in place of what was kept of the same one. After
// an error any part of them may be kept.
func (s *Arrivals) Write(ctx context.Context, minutes []Arrived) error {
	for len(minutes) > 0 {
		n := min(len(minutes), arrivalsBatch)
		if err := s.write(ctx, minutes[:n]); err != nil {
			return err
		}
		minutes = minutes[n:]
	}
	return nil
}

func (s *Arrivals) write(ctx context.Context, minutes []Arrived) error {
	ctx, cancel := context.WithTimeout(ctx, redisdb.CallTimeout)
	defer cancel()
	pipe := s.db.Slow.Pipeline()
	for _, m := range minutes {
		key := s.arrivals(m.Target, m.Minute)
		pipe.HSet(ctx, key, strconv.Itoa(m.Minute.UTC().Minute())+":"+s.replica, m.Text)
		pipe.PExpire(ctx, key, arrivalsKept)
	}
	_, err := pipe.Exec(ctx)
	return redisdb.Down(err)
}

// Read are the minutes of a target, of all replicas, from the hour of one moment to that of
// another, hour by hour.
func (s *Arrivals) Read(ctx context.Context, target string, from, to time.Time) ([]Arrived, error) {
	var all []Arrived
	for hour := from.UTC().Truncate(time.Hour); !hour.After(to); hour = hour.Add(time.Hour) {
		key := s.arrivals(target, hour)
		fields, err := s.hour(ctx, key)
		if err != nil {
			return nil, err
		}
		for name, text := range fields {
			number, _, _ := strings.Cut(name, ":")
			minute, err := strconv.ParseUint(number, 10, 8)
			if err != nil {
				return nil, fmt.Errorf("pool: %q in %s is no minute: %w", name, key, err)
			}
			all = append(all, Arrived{Target: target, Minute: hour.Add(time.Duration(minute) * time.Minute), Text: text})
		}
	}
	return all, nil
}

func (s *Arrivals) hour(ctx context.Context, key string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, redisdb.CallTimeout)
	defer cancel()
	fields, err := s.db.Slow.HGetAll(ctx, key).Result()
	return fields, redisdb.Down(s.db.Explain(ctx, err, []string{key}))
}
