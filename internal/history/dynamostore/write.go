package dynamostore

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"poold/internal/history"
)

// mostItems is how many items a transaction may have.
const mostItems = 100

// Write implements history.Store.
func (s *Store) Write(ctx context.Context, batch []history.Record) error {
	batch = arranged(batch)
	var sites []types.WriteRequest
	for len(batch) > 0 {
		n := fitting(batch)
		there, err := s.enter(ctx, batch[:n])
		if err != nil {
			return s.down(ctx, "writing records", err)
		}
		for _, solve := range there {
			if site := siteItem(solve); site != nil {
				sites = append(sites, types.WriteRequest{PutRequest: &types.PutRequest{Item: site}})
			}
		}
		batch = batch[n:]
	}
	return s.down(ctx, "writing the records of sites", s.writeAll(ctx, sites))
}

// arranged is a batch with each ID once, where records of the same figures are neighbours.
func arranged(batch []history.Record) []history.Record {
	seen := map[string]bool{}
	var once []history.Record
	for _, r := range batch {
		if !seen[r.ID] {
			seen[r.ID] = true
			once = append(once, r)
		}
	}
	slices.SortStableFunc(once, func(a, b history.Record) int {
		return cmp.Or(cmp.Compare(date(a.Ended), date(b.Ended)), cmp.Compare(a.Type, b.Type),
			cmp.Compare(a.Target, b.Target), cmp.Compare(a.Owner, b.Owner))
	})
	return once
}

// fitting is how many of the records, from the first on, go into one transaction.
func fitting(records []history.Record) int {
	moved := map[sum]bool{}
	for n, r := range records {
		for _, of := range sums(r) {
			moved[of] = true
		}
		if n+1+len(moved) > mostItems {
			return n
		}
	}
	return len(records)
}

// enter brings records into the table, and with each that is new the figures of its day
// up. It returns the items of all, as the table has them.
func (s *Store) enter(ctx context.Context, records []history.Record) (there []item, err error) {
	for len(records) > 0 {
		items := make([]item, len(records))
		for n, r := range records {
			items[n] = s.solveItem(r)
		}
		_, err := s.client.TransactWriteItems(ctx, s.transaction(records, items))
		if err == nil {
			return append(there, items...), nil
		}
		reasons := alreadyThere(err)
		if len(reasons) < len(records) {
			return nil, err
		}
		var others []history.Record
		for n, r := range records {
			if code(reasons[n]) == conditionFailed {
				there = append(there, reasons[n].Item)
			} else {
				others = append(others, r)
			}
		}
		records = others
	}
	return there, nil
}

// transaction puts records that are new, first and in their order, and moves the figures.
func (s *Store) transaction(records []history.Record, items []item) *dynamodb.TransactWriteItemsInput {
	var in dynamodb.TransactWriteItemsInput
	moved := map[sum]history.Figures{}
	for n, r := range records {
		for _, of := range sums(r) {
			moved[of] = moved[of].Plus(r.Figures())
		}
		in.TransactItems = append(in.TransactItems, types.TransactWriteItem{Put: &types.Put{
			TableName: aws.String(s.table), Item: items[n],
			ConditionExpression: aws.String("attribute_not_exists(#PK)"), ExpressionAttributeNames: map[string]string{"#PK": "PK"},
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}})
	}
	shard := rand.IntN(shards) //nolint:gosec // G404: nothing secret depends on it
	for of, figures := range moved {
		in.TransactItems = append(in.TransactItems, types.TransactWriteItem{Update: s.update(of, shard, figures)})
	}
	return &in
}

// alreadyThere is why each item of a transaction was refused, where that is because some
// records are there; else nil.
func alreadyThere(err error) []types.CancellationReason {
	cancelled := (*types.TransactionCanceledException)(nil)
	if !errors.As(err, &cancelled) || !slices.ContainsFunc(cancelled.CancellationReasons, func(r types.CancellationReason) bool {
		return code(r) == conditionFailed
	}) {
		return nil
	}
	return cancelled.CancellationReasons
}

// conditionFailed is the code of a put whose item is there.
const conditionFailed = "ConditionalCheckFailed"

func code(r types.CancellationReason) string { return aws.ToString(r.Code) }
