package dynamostore

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"poold/internal/history"
)

// mostItems is how many items a transaction may have.
const mostItems = 100

// newcomer is an item that comes into the table once, and what it adds to figures when it
// does.
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
	there, err := s.enter(ctx, newcomers)
	if err != nil {
		return s.down(ctx, "writing records", err)
	}
	return s.down(ctx, "writing the records of sites and tasks", s.writeAll(ctx, copies(there)))
}

// copies returns the writes of the items that records are found by, their sites' first. Of
// several records of one task it writes the newest.
func copies(solves []item) (writes []types.WriteRequest) {
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

// enter brings items into the table, and with each that is new what it adds. It returns
// all of them, as the table has them.
func (s *Store) enter(ctx context.Context, batch []newcomer) (there []item, err error) {
	for batch = arranged(batch); len(batch) > 0; {
		n := fitting(batch)
		entered, err := s.enterTogether(ctx, batch[:n])
		if err != nil {
			return nil, err
		}
		there, batch = append(there, entered...), batch[n:]
	}
	return there, nil
}

// arranged is a batch with each key once, where those that add to the same figures are
// neighbours.
func arranged(batch []newcomer) []newcomer {
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

// fitting is how many of a batch, from the first on, go into one transaction.
func fitting(batch []newcomer) int {
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

// enterTogether is enter for what goes into one transaction.
func (s *Store) enterTogether(ctx context.Context, batch []newcomer) (there []item, err error) {
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

// transaction puts items that are new, first and in their order, and moves the figures.
func transaction(table string, batch []newcomer) *dynamodb.TransactWriteItemsInput {
	var in dynamodb.TransactWriteItemsInput
	moved := map[sum]addition{}
	for _, c := range batch {
		for _, a := range c.adds {
			moved[a.sum] = addition{a.sum, a.names, plus(moved[a.sum].by, a.by)}
		}
		in.TransactItems = append(in.TransactItems, types.TransactWriteItem{Put: &types.Put{
			TableName: aws.String(table), Item: c.item,
			ConditionExpression: aws.String("attribute_not_exists(#PK)"), ExpressionAttributeNames: map[string]string{"#PK": "PK"},
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}})
	}
	for _, a := range moved {
		in.TransactItems = append(in.TransactItems, types.TransactWriteItem{Update: a.update(table)})
	}
	return &in
}

// plus is the sum of both.
func plus(a, b amounts) amounts {
	sums := maps.Clone(b)
	for name, n := range a {
		sums[name] += n
	}
	return sums
}

// alreadyThere is why each item of a transaction was refused, where that is because some
// are there; else nil.
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
