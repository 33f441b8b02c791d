package dynamostore

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"

	"poold/internal/history"
)

const (
	dialLimit = 2 * time.Second
	// callLimit limits one attempt of a call. It is long, because a slow response is better than a
	// failed call.
	callLimit = 5 * time.Second

	// emulatedRegion is the region if the options have an endpoint and no region. The SDK needs a
	// region.
	emulatedRegion = "us-east-1"
)

// Options are the options of Open.
type Options struct {
	Table     string        // name of the table; "" = CaptchaSolves
	Endpoint  string        // URL of an emulator or of a private link, such as http://host:port; "" = the region's endpoint
	Region    string        // "" = the region in the environment or in AWS's shared files
	Keep      time.Duration // how long a record is kept after its end; 0 = 90 days
	KeepAudit time.Duration // how long entries of the audit and the figures by key are kept; 0 = 90 days
}

var (
	_ history.Store = (*Store)(nil)
	_ history.Audit = (*Store)(nil)
)

// Store implements history.Store and history.Audit in one table. The figures of a day by type and by
// target never expire. The figures by key expire.
type Store struct {
	client          *dynamodb.Client
	transport       *http.Transport
	table           string
	keep, keepAudit time.Duration
}

// Open reads AWS's configuration from the environment and the shared files. It does not connect. The
// caller must close the store.
func Open(ctx context.Context, o Options) (*Store, error) {
	var load []func(*config.LoadOptions) error
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	c, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		if missing := (config.SharedConfigProfileNotExistError{}); errors.As(err, &missing) {
			return nil, errors.New("dynamodb: the AWS profile " + missing.Profile + " does not exist")
		}
		return nil, errors.New("dynamodb: AWS's configuration, in the environment or in its shared files, cannot be read")
	}
	if c.Region == "" {
		if o.Endpoint == "" {
			return nil, errors.New("dynamodb: no region is known: set the region of the history, or AWS_REGION")
		}
		c.Region = emulatedRegion
	}
	c.Credentials = credentials{c.Credentials}
	const quarter = 90 * 24 * time.Hour
	s := &Store{
		transport: transport(), table: cmp.Or(o.Table, "CaptchaSolves"),
		keep: cmp.Or(o.Keep, quarter), keepAudit: cmp.Or(o.KeepAudit, quarter),
	}
	s.client = dynamodb.NewFromConfig(c, func(d *dynamodb.Options) {
		d.HTTPClient = &http.Client{Transport: s.transport, Timeout: callLimit, CheckRedirect: refuseRedirect}
		d.Retryer = retryer{}
		d.Logger = logging.Nop{}
		if o.Endpoint != "" {
			d.BaseEndpoint = aws.String(o.Endpoint)
		}
	})
	return s, nil
}

// Close closes the connections. No call of another method may be running.
func (s *Store) Close() { s.transport.CloseIdleConnections() }

// transport returns a transport whose requests fail within some seconds if the endpoint does not
// respond.
func transport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialLimit}).DialContext,
		TLSHandshakeTimeout: dialLimit,
		MaxIdleConnsPerHost: 10,
		IdleConnTimeout:     30 * time.Second,
	}
}

// refuseRedirect is the CheckRedirect function of the HTTP client. The client follows no redirect,
// because a signed request is valid for one host only.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// credentials is a provider of AWS credentials that returns errNoCredentials if none were found. The
// SDK's own error would contain the files and addresses that the SDK searched.
type credentials struct{ aws.CredentialsProvider }

func (c credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := c.CredentialsProvider.Retrieve(ctx)
	switch {
	case err == nil:
		return found, nil
	case ctx.Err() != nil:
		return aws.Credentials{}, ctx.Err()
	default:
		return aws.Credentials{}, errNoCredentials
	}
}
