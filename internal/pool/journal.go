package pool

import (
	"context"
	"slices"
	"time"

	"poold/internal/redisdb"
)

// findBatch is how many orders are read in one exchange.
const findBatch = 500

// FindAll reads many orders, some hundred in one exchange, and returns those that there
// are, in the order in which they were named. It fails where it is not known of one
// whether it is there.
func (s *Orders) FindAll(ctx context.Context, orders []Ref) ([]Record, error) {
	var found []Record
	for batch := range slices.Chunk(orders, findBatch) {
		answers := make([]*redisdb.Answer, len(batch))
		asked := time.Now()
		s.pipelined(ctx, "find", func(call redisdb.Add) {
			for i, order := range batch {
				answers[i] = call(s.keys(order.Identity), args{"order": order.Order})
			}
		})
		answered := time.Now()
		for i, answer := range answers {
			if answer.Err() != nil {
				return nil, answer.Err()
			}
			reply := s.script("find").Read(answer.Val())
			if len(reply.List()) == 0 {
				continue
			}
			r, err := readRecord(batch[i], reply, asked, answered)
			if err != nil {
				return nil, err
			}
			found = append(found, r)
		}
	}
	return found, nil
}
