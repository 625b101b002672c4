/* A directory keeps the caches of a shared memory line coherent: requests, invalidations and
 * grants go through channels of one message. The CLOCK-Pro paper's program murphi is a model
 * checker too, and protocols of this kind are what it was made for. Checked: no two owners, no
 * owner beside a sharer. */
#define CACHES 4

mtype = { invalid, shared, exclusive, ask_shared, ask_exclusive, invalidate, done, grant_shared, grant_exclusive }

mtype line[CACHES] = invalid;
chan request[CACHES] = [1] of { mtype };
chan order[CACHES] = [1] of { mtype };
chan answer[CACHES] = [1] of { mtype };
byte owners, sharers;

proctype cache(byte me) {
    do
    :: atomic { line[me] == invalid && len(request[me]) == 0 -> request[me]!ask_shared }
    :: atomic { line[me] != exclusive && len(request[me]) == 0 -> request[me]!ask_exclusive }
    :: atomic { order[me]?invalidate ->
        if
        :: line[me] == shared -> sharers--
        :: line[me] == exclusive -> owners--
        :: else
        fi;
        line[me] = invalid;
        answer[me]!done }
    :: atomic { order[me]?grant_shared ->
        if
        :: line[me] == invalid -> sharers++; line[me] = shared; assert(owners == 0)
        :: else
        fi }
    :: atomic { order[me]?grant_exclusive ->
        if
        :: line[me] == shared -> sharers--; owners++
        :: line[me] == invalid -> owners++
        :: else
        fi;
        line[me] = exclusive;
        assert(owners == 1 && sharers == 0) }
    od
}

proctype directory() {
    mtype wanted;
    byte from, other;
    do
    :: from = 0;
       do
       :: from < CACHES - 1 -> from++
       :: break
       od;
       if
       :: request[from]?wanted ->
           other = 0;
           do
           :: other < CACHES ->
               if
               :: other != from && (line[other] == exclusive || wanted == ask_exclusive) ->
                   order[other]!invalidate;
                   answer[other]?done
               :: else
               fi;
               other++
           :: else -> break
           od;
           if
           :: wanted == ask_shared -> order[from]!grant_shared
           :: else -> order[from]!grant_exclusive
           fi;
           len(order[from]) == 0
       :: len(request[from]) == 0
       fi
    od
}

init {
    atomic {
        run directory();
        byte at = 0;
        do
        :: at < CACHES -> run cache(at); at++
        :: else -> break
        od
    }
}
