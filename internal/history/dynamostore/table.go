package dynamostore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Check compares the table with the shape that the store needs. If the table cannot be read, the error is a
// history.ErrDown. If the table has another shape, the error names both.
func (s *Table) Check(ctx context.Context) error {
	table, expiry, err := s.describe(ctx)
	if err != nil {
		return s.downError(ctx, "looking at the table", err)
	}
	return s.checkShape(table, expiry)
}

// describe returns the description of the table, and the attribute by which its items expire; "" = items do not expire.
func (s *Table) describe(ctx context.Context) (table *types.TableDescription, expiry string, err error) {
	out, err := s.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.table})
	if err != nil {
		return nil, "", err
	}
	live, err := s.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.table})
	if err != nil {
		return nil, "", err
	}
	if ttl := live.TimeToLiveDescription; strings.HasPrefix(string(ttl.TimeToLiveStatus), "ENABL") { // ENABLED or ENABLING
		expiry = aws.ToString(ttl.AttributeName)
	}
	return out.Table, expiry, nil
}

// Init creates the table, its index and its time to live. It keeps existing parts. If an existing part has a wrong
// shape, Init changes nothing and its error names both shapes.
func (s *Table) Init(ctx context.Context) error {
	in := dynamodb.CreateTableInput{TableName: &s.table}
	must(0, json.Unmarshal([]byte(tableShape), &in))
	_, err := s.client.CreateTable(ctx, &in)
	if there := (*types.ResourceInUseException)(nil); err != nil && !errors.As(err, &there) {
		return s.downError(ctx, "making the table", err)
	}
	waiter := dynamodb.NewTableExistsWaiter(s.client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = time.Second, 5*time.Second
	})
	if err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &s.table}, 5*time.Minute); err != nil {
		return s.downError(ctx, "waiting for the table", err)
	}
	table, expiry, err := s.describe(ctx)
	if err != nil {
		return s.downError(ctx, "looking at the table", err)
	}
	if err := s.checkShape(table, cmp.Or(expiry, "ttl")); err != nil {
		return err
	}
	if expiry == "" {
		_, err = s.client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
			TableName:               &s.table,
			TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: aws.Bool(true)},
		})
	}
	return s.downError(ctx, "setting the table's time to live", err)
}

// tableShape is a dynamodb.CreateTableInput.
const tableShape = `{
	"BillingMode": "PAY_PER_REQUEST",
	"AttributeDefinitions": [
		{"AttributeName": "PK", "AttributeType": "S"}, {"AttributeName": "SK", "AttributeType": "S"},
		{"AttributeName": "GSI1PK", "AttributeType": "S"}, {"AttributeName": "GSI1SK", "AttributeType": "S"}],
	"KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
	"GlobalSecondaryIndexes": [{"IndexName": "GSI1", "Projection": {"ProjectionType": "ALL"},
		"KeySchema": [{"AttributeName": "GSI1PK", "KeyType": "HASH"}, {"AttributeName": "GSI1SK", "KeyType": "RANGE"}]}]}`

// wanted is the shape of the table, as shapeOf describes it.
const wanted = "keys PK (S), SK (S); index GSI1 with keys GSI1PK (S), GSI1SK (S) and ALL attributes; " +
	"time to live by ttl"

// shapeOf describes what the store needs of a table, whose items expire by the given attribute.
func shapeOf(table *types.TableDescription, expiry string) string {
	kinds := map[string]types.ScalarAttributeType{}
	for _, d := range table.AttributeDefinitions {
		kinds[*d.AttributeName] = d.AttributeType
	}
	keys := func(schema []types.KeySchemaElement) string {
		var list []string
		for _, k := range schema {
			list = append(list, fmt.Sprintf("%s (%s)", *k.AttributeName, kinds[*k.AttributeName]))
		}
		return "keys " + strings.Join(list, ", ")
	}
	shape := keys(table.KeySchema) + "; "
	for _, i := range table.GlobalSecondaryIndexes {
		if *i.IndexName == index {
			shape += fmt.Sprintf("index %s with %s and %s attributes; ", index, keys(i.KeySchema), i.Projection.ProjectionType)
		}
	}
	return shape + "time to live by " + cmp.Or(expiry, "nothing")
}

// checkShape returns an error if a table has another shape than the store needs.
func (s *Table) checkShape(table *types.TableDescription, expiry string) error {
	if shape := shapeOf(table, expiry); shape != wanted {
		return fmt.Errorf("dynamodb: the table %s is of another shape: it has %s; poold needs %s", s.table, shape, wanted)
	}
	return nil
}
