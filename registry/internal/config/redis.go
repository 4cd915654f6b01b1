package config

import (
	"time"

	"slipway/shared/config"
)

// Redis is the connection to a server, a cluster or a primary behind sentinels. The
// keys are those of distribution 3, and those of 2.8 where they differ.
type Redis struct {
	Addr       string   `key:"addr" doc:"host:port of a server, as in distribution 2.8."`
	Addrs      []string `key:"addrs" doc:"host:port of a server, of cluster nodes, or with mastername of sentinels."`
	MasterName string   `key:"mastername" doc:"Name of the primary that the sentinels at addrs know."`

	Username         string        `key:"username" doc:"User of the server's access control list."`
	Password         config.Secret `key:"password" doc:"Password of the server."`
	SentinelUsername string        `key:"sentinelusername" doc:"User of the sentinels."`
	SentinelPassword config.Secret `key:"sentinelpassword" doc:"Password of the sentinels."`
	DB               int           `key:"db" min:"0" doc:"Number of the database; a cluster has only 0."`
	ClientName       string        `key:"clientname" doc:"Name of the connections in CLIENT LIST."`
	Protocol         int           `key:"protocol" doc:"Protocol version, 2 or 3; 0 negotiates."`
	DisableIdentity  bool          `key:"disableidentity" alias:"disableindentity" doc:"Hide the name of the client library."`
	IdentitySuffix   string        `key:"identitysuffix" doc:"Appended to the name of the client library."`
	TLS              RedisTLS      `key:"tls"`

	DialTimeout     time.Duration `key:"dialtimeout" min:"1" doc:"Time to connect."`
	ReadTimeout     time.Duration `key:"readtimeout" min:"1" doc:"Time for an answer."`
	WriteTimeout    time.Duration `key:"writetimeout" min:"1" doc:"Time to send a command."`
	MaxRetries      int           `key:"maxretries" min:"0" doc:"Retries of a failed command."`
	MinRetryBackoff time.Duration `key:"minretrybackoff" min:"0" doc:"Shortest delay of a retry; 0 means 8ms."`
	MaxRetryBackoff time.Duration `key:"maxretrybackoff" min:"0" doc:"Longest delay of a retry; 0 means 512ms."`

	PoolSize        int           `key:"poolsize" min:"0" doc:"Base number of connections; 0 means 10 per processor."`
	PoolFIFO        bool          `key:"poolfifo" doc:"Use the connection idle longest, not shortest."`
	PoolTimeout     time.Duration `key:"pooltimeout" min:"0" doc:"Wait for a free connection; 0 means readtimeout."`
	MinIdleConns    int           `key:"minidleconns" min:"0" doc:"Fewest idle connections."`
	MaxIdleConns    int           `key:"maxidleconns" min:"0" doc:"Most idle connections; 0 means no limit."`
	MaxActiveConns  int           `key:"maxactiveconns" min:"0" doc:"Most connections; 0 means no limit."`
	ConnMaxIdleTime time.Duration `key:"connmaxidletime" min:"0" doc:"Idle time until a connection is closed; 0 means 30m."`
	ConnMaxLifetime time.Duration `key:"connmaxlifetime" min:"0" doc:"Age at which a connection is closed; 0 means never."`
	Pool            RedisPool     `key:"pool"`

	MaxRedirects   int  `key:"maxredirects" min:"0" doc:"Redirections of a cluster to follow; 0 means 3."`
	ReadOnly       bool `key:"readonly" doc:"Read from the replicas of a cluster."`
	RouteByLatency bool `key:"routebylatency" doc:"Read from the node of a cluster that answers fastest."`
	RouteRandomly  bool `key:"routerandomly" doc:"Read from any node of a cluster."`

	ContextTimeoutEnabled config.Dead `key:"contexttimeoutenabled" why:"each command is bounded in time"`
	UnstableRESP3         config.Dead `key:"unstableresp3" why:"no command is used that it would change"`
}

// RedisPool has the names that distribution 2.8 gives to the pool's limits.
type RedisPool struct {
	MaxIdle     int           `key:"maxidle" min:"0" doc:"Old name of redis.maxidleconns."`
	MaxActive   int           `key:"maxactive" min:"0" doc:"Old name of redis.maxactiveconns."`
	IdleTimeout time.Duration `key:"idletimeout" min:"0" doc:"Old name of redis.connmaxidletime."`
}

// RedisTLS is for servers that speak TLS.
type RedisTLS struct {
	Enabled     bool     `key:"enabled" doc:"Connect over TLS; implied by the other keys here."`
	Certificate string   `key:"certificate" doc:"File of the certificate that is shown to the server."`
	Key         string   `key:"key" doc:"File of its key."`
	RootCAs     []string `key:"rootcas" doc:"Certificate authorities. Default: the system's."`
}

// On reports whether TLS is used.
func (t *RedisTLS) On() bool {
	return t.Enabled || t.Certificate != "" || t.Key != "" || len(t.RootCAs) > 0
}

// Addresses are all that are given, each once.
func (r *Redis) Addresses() []string {
	if r.Addr == "" {
		return r.Addrs
	}
	all := []string{r.Addr}
	for _, a := range r.Addrs {
		if a != r.Addr {
			all = append(all, a)
		}
	}
	return all
}

// defaultRedis has the times of a cache: beyond them the storage answers faster.
func defaultRedis() *Redis {
	return &Redis{DialTimeout: 200 * time.Millisecond, ReadTimeout: 100 * time.Millisecond, WriteTimeout: 100 * time.Millisecond}
}

func (r *Redis) validate(p *config.Problems) {
	for _, addr := range r.Addresses() {
		address(p, "redis.addrs", addr)
	}
	if r.MasterName == "" && len(r.Addresses()) > 1 && r.DB != 0 {
		p.Addf("redis.db", "must be 0: several addresses without mastername are a cluster, which has only database 0")
	}
	if r.Protocol != 0 && r.Protocol != 2 && r.Protocol != 3 {
		p.Addf("redis.protocol", "must be 2 or 3")
	}
	if (r.TLS.Certificate == "") != (r.TLS.Key == "") {
		p.Addf("redis.tls", "needs certificate and key together")
	}
}
