package dynamostore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Check compares the table with the shape that the store needs. If the table cannot be read, the error is a
// history.ErrDown. If the table has another shape, the error names all differences.
func (s *Store) Check(ctx context.Context) error {
	table, expiry, err := s.describe(ctx)
	if err != nil {
		return s.downError(ctx, "looking at the table", err)
	}
	return s.shapeError(differences(table, expiry))
}

// describe returns the table, and the attribute by which its items expire; "" = its time to live is off.
func (s *Store) describe(ctx context.Context) (table *types.TableDescription, expiry string, err error) {
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
// shape, Init changes nothing and its error names all differences.
func (s *Store) Init(ctx context.Context) error {
	if err := s.create(ctx); err != nil {
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
	wrong := differences(table, cmp.Or(expiry, "ttl"))
	if b := table.BillingModeSummary; b == nil || b.BillingMode != types.BillingModePayPerRequest {
		wrong = append(wrong, "its billing is provisioned, not on demand")
	}
	if len(wrong) > 0 {
		return s.shapeError(wrong)
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

// create creates the table if it does not exist.
func (s *Store) create(ctx context.Context) error {
	in := dynamodb.CreateTableInput{TableName: &s.table}
	must(0, json.Unmarshal([]byte(tableShape), &in))
	_, err := s.client.CreateTable(ctx, &in)
	if there := (*types.ResourceInUseException)(nil); errors.As(err, &there) {
		return nil
	}
	return err
}

// differences describes how a table differs from the one that the store needs.
func differences(table *types.TableDescription, expiry string) (list []string) {
	compare := func(format, got, want string) {
		if got != want {
			list = append(list, fmt.Sprintf(format, got)+", not "+want)
		}
	}
	keys := func(schema []types.KeySchemaElement) string {
		text := ""
		for _, k := range schema {
			name := *k.AttributeName
			n := slices.IndexFunc(table.AttributeDefinitions, func(d types.AttributeDefinition) bool { return *d.AttributeName == name })
			text += fmt.Sprintf(", %s (%s)", name, table.AttributeDefinitions[n].AttributeType)
		}
		return strings.TrimPrefix(text, ", ")
	}
	compare("its keys are %s", keys(table.KeySchema), "PK (S), SK (S)")
	all := table.GlobalSecondaryIndexes
	n := slices.IndexFunc(all, func(i types.GlobalSecondaryIndexDescription) bool { return *i.IndexName == index })
	if n < 0 {
		list = append(list, "it has no index "+index)
	} else {
		i := all[n]
		compare("the keys of its index "+index+" are %s", keys(i.KeySchema), "GSI1PK (S), GSI1SK (S)")
		compare("its index "+index+" shows %s of the attributes", string(i.Projection.ProjectionType), "ALL")
	}
	if expiry == "" {
		return append(list, "its time to live is off")
	}
	compare("its time to live is %s", "by "+expiry, "by ttl")
	return list
}

func (s *Store) shapeError(list []string) error {
	if len(list) == 0 {
		return nil
	}
	return fmt.Errorf("dynamodb: the table %s is of another shape: %s", s.table, strings.Join(list, "; "))
}
