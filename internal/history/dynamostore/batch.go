package dynamostore

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"poold/internal/history"
)

const (
	// mostWrites is the maximum number of writes that DynamoDB accepts in a call.
	mostWrites = 25
	// activeFor is the time from an order's submission until its item expires.
	activeFor = 10 * time.Minute
)

// writeAll executes all writes. All writes must have different keys.
func (s *Store) writeAll(ctx context.Context, writes []types.WriteRequest) error {
	for refused := 0; len(writes) > 0; {
		n := min(len(writes), mostWrites)
		out, err := s.client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{s.table: writes[:n]},
		})
		if err != nil {
			return err
		}
		left := out.UnprocessedItems[s.table]
		writes = append(left, writes[n:]...)
		if len(left) == 0 {
			refused = 0
			continue
		}
		refused++
		if refused >= mostBusy || pauses.Wait(ctx, refused) != nil {
			return errBusy
		}
	}
	return nil
}

// PutActive implements history.ActiveStore.
func (s *Store) PutActive(ctx context.Context, orders []history.Record) error {
	writes := make([]types.WriteRequest, len(orders))
	for n, r := range orders {
		i := activeItem(r)
		i.setKey(activePrefix+r.ID, task)
		i.setIndex(history.StatusPolling, position(r.Submitted, r.ID))
		i.setNumber("ttl", r.Submitted.Add(activeFor).Unix())
		writes[n].PutRequest = &types.PutRequest{Item: i}
	}
	return s.downError(ctx, "writing active orders", s.writeAll(ctx, writes))
}

// RemoveActive implements history.ActiveStore.
func (s *Store) RemoveActive(ctx context.Context, ids []string) error {
	writes := make([]types.WriteRequest, len(ids))
	for n, id := range ids {
		key := item{}
		key.setKey(activePrefix+id, task)
		writes[n].DeleteRequest = &types.DeleteRequest{Key: key}
	}
	return s.downError(ctx, "removing active orders", s.writeAll(ctx, writes))
}
