package dynamostore

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"poold/internal/history"
)

// mostItems is the maximum number of items that DynamoDB accepts in a transaction.
const mostItems = 100

// newcomer is an item that is put only if the table lacks it. If it is put, its amounts are added to
// figures.
type newcomer struct {
	item item
	adds []addition
}

// Write implements history.Store.
func (s *Store) Write(ctx context.Context, batch []history.Record) error {
	newcomers := make([]newcomer, len(batch))
	for n, r := range batch {
		newcomers[n] = newcomer{solveItem(r, s.keep), additions(r)}
	}
	there, err := s.putNew(ctx, newcomers)
	if err != nil {
		return s.downError(ctx, "writing records", err)
	}
	return s.downError(ctx, "writing the records of sites and tasks", s.writeAll(ctx, copyWrites(there)))
}

// copyWrites returns the writes of the copies by site and by task, sites first. If several records
// have the same task, copyWrites copies only the newest of these records.
func copyWrites(solves []item) (writes []types.WriteRequest) {
	slices.SortFunc(solves, func(a, b item) int { return -cmp.Compare(a.text("GSI1SK"), b.text("GSI1SK")) })
	put := func(i item) {
		writes = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{Item: i}})
	}
	for _, solve := range solves {
		if site := siteItem(solve); site != nil {
			put(site)
		}
	}
	written := map[string]bool{}
	for _, solve := range solves {
		if task := taskItem(solve); task != nil && !written[task.text("PK")] {
			written[task.text("PK")] = true
			put(task)
		}
	}
	return writes
}

// putNew puts the items that the table lacks, and adds only these items to the figures. It returns all
// items of the batch as they are in the table.
func (s *Store) putNew(ctx context.Context, batch []newcomer) (there []item, err error) {
	for batch = arrange(batch); len(batch) > 0; {
		n := countFitting(batch)
		entered, err := s.putTogether(ctx, batch[:n])
		if err != nil {
			return nil, err
		}
		there, batch = append(there, entered...), batch[n:]
	}
	return there, nil
}

// arrange removes duplicate items from the batch, and sorts the batch by the figures to which the items
// add.
func arrange(batch []newcomer) []newcomer {
	seen := map[[2]string]bool{}
	var once []newcomer
	for _, c := range batch {
		if key := [2]string{c.item.text("PK"), c.item.text("SK")}; !seen[key] {
			seen[key] = true
			once = append(once, c)
		}
	}
	slices.SortStableFunc(once, func(a, b newcomer) int {
		return slices.CompareFunc(a.adds, b.adds, func(a, b addition) int {
			return cmp.Or(cmp.Compare(a.day, b.day), cmp.Compare(a.sortKey, b.sortKey))
		})
	})
	return once
}

// countFitting returns how many items, counted from the start of the batch, fit into one transaction.
func countFitting(batch []newcomer) int {
	moved := map[sum]bool{}
	for n, c := range batch {
		for _, a := range c.adds {
			moved[a.sum] = true
		}
		if n+1+len(moved) > mostItems {
			return n
		}
	}
	return len(batch)
}

// putTogether does the work of putNew for a batch that fits into one transaction.
func (s *Store) putTogether(ctx context.Context, batch []newcomer) (there []item, err error) {
	for len(batch) > 0 {
		_, err := s.client.TransactWriteItems(ctx, transaction(s.table, batch))
		if err == nil {
			for _, c := range batch {
				there = append(there, c.item)
			}
			return there, nil
		}
		reasons := alreadyThere(err)
		if len(reasons) < len(batch) {
			return nil, err
		}
		var others []newcomer
		for n, c := range batch {
			if code(reasons[n]) == conditionFailed {
				there = append(there, reasons[n].Item)
			} else {
				others = append(others, c)
			}
		}
		batch = others
	}
	return there, nil
}

// transaction returns a transaction that puts the items in the given order, on condition that they are
// new, and that adds to the figures.
func transaction(table string, batch []newcomer) *dynamodb.TransactWriteItemsInput {
	var in dynamodb.TransactWriteItemsInput
	totals := map[sum]addition{}
	for _, c := range batch {
		for _, a := range c.adds {
			if _, ok := totals[a.sum]; !ok {
				totals[a.sum] = addition{a.sum, a.names, amounts{}}
			}
			for name, n := range a.by {
				totals[a.sum].by[name] += n
			}
		}
		in.TransactItems = append(in.TransactItems, types.TransactWriteItem{Put: &types.Put{
			TableName: aws.String(table), Item: c.item,
			ConditionExpression: aws.String("attribute_not_exists(#PK)"), ExpressionAttributeNames: map[string]string{"#PK": "PK"},
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}})
	}
	for _, a := range totals {
		in.TransactItems = append(in.TransactItems, types.TransactWriteItem{Update: a.update(table)})
	}
	return &in
}

// alreadyThere returns the cancellation reasons of a transaction, one for each item, if DynamoDB
// cancelled the transaction because some items exist. If not, it returns nil.
func alreadyThere(err error) []types.CancellationReason {
	cancelled := (*types.TransactionCanceledException)(nil)
	if !errors.As(err, &cancelled) || !slices.ContainsFunc(cancelled.CancellationReasons, func(r types.CancellationReason) bool {
		return code(r) == conditionFailed
	}) {
		return nil
	}
	return cancelled.CancellationReasons
}

// conditionFailed is the cancellation code of a put whose item already exists.
const conditionFailed = "ConditionalCheckFailed"

func code(r types.CancellationReason) string { return aws.ToString(r.Code) }
