/* Nothing here is behaviour. It gives states that cannot be told apart one form, so that there are fewer of them and
 * the number of records, takeovers, faults and handovers needs no bound. It follows each step. */

inline free(k_) {
	net[k_].state = FREE; net[k_].waits = NOBODY; net[k_].takeover = 0; net[k_].from = 0; net[k_].n = 0;
	net[k_].first = 0; net[k_].serial = 0; net[k_].base = 0; net[k_].landed = 0; net[k_].unclear = 0; net[k_].no = 0
}

#define key(j) (net[j].state + 4 * (net[j].waits + 4 * (net[j].takeover + 2 * (net[j].from + 4 * (net[j].n + \
	4 * (net[j].first + 2 * (net[j].serial + 4 * (net[j].base + 16 * (net[j].landed + 16 * (net[j].unclear + \
	2 * net[j].no))))))))))

#define SWAP2(p, q, field) f = p.field; p.field = q.field; q.field = f
#define SWAP(p, q, field) SWAP2(net[p], net[q], field)
#ifdef NO_AT
#define faded(j) false
#else
#define faded(j) (net[j].base == NEVER)
#endif
#define batchIn(j) (net[j].state != FREE && !net[j].takeover && !faded(j))

inline order(p, q) {
	if
	:: key(p) < key(q) ->
		SWAP(p, q, state); SWAP(p, q, waits); SWAP(p, q, takeover); SWAP(p, q, from); SWAP(p, q, n); SWAP(p, q, first);
		SWAP(p, q, serial); SWAP(p, q, base); SWAP(p, q, landed); SWAP(p, q, unclear); SWAP(p, q, no)
	:: else
	fi
}

inline sort() {
	order(0, 1);
#if NET > 2
	order(1, 2); order(0, 1);
#endif
#if NET > 3
	order(2, 3); order(1, 2); order(0, 1);
#endif
}

inline drop(p, q) {
	if
	:: net[p].state != FREE && net[p].waits == NOBODY && key(p) == key(q) -> free(p)
	:: else
	fi
}

/* The instances are alike, and so are the messages: of two states that differ in their names alone, one is enough. */
#define weight(j, u) (1 + net[j].u + 4 * (net[j].waits + 4 * (net[j].takeover + 2 * (net[j].base + 16 * net[j].state))))

inline turn() {
	one = inst[A].phase + 8 * inst[A].lease + 16 * inst[A].next + 256 * (owner == A);
	two = inst[B].phase + 8 * inst[B].lease + 16 * inst[B].next + 256 * (owner == B);
	g = 0;
	do
	:: g < NET ->
		if
		:: net[g].state != FREE && net[g].from == A && !faded(g) -> one = one + 512 * weight(g, n)
		:: net[g].state != FREE && net[g].from == B && !faded(g) -> two = two + 512 * weight(g, n)
		:: else
		fi;
		g++
	:: else -> break
	od;
	if
	:: one < two ->
		NOTE(renamed, 1 - renamed);
		SWAP2(inst[A], inst[B], phase); SWAP2(inst[A], inst[B], lease); SWAP2(inst[A], inst[B], next);
		SWAP2(inst[A], inst[B], x); SWAP2(inst[A], inst[B], y);
		if :: owner != NONE -> owner = 1 - owner :: else fi;
		g = 0;
		do
		:: g < NET ->
			if
			:: net[g].state != FREE && net[g].from != DEAD && !faded(g) -> net[g].from = 1 - net[g].from
			:: else
			fi;
			g++
		:: else -> break
		od;
		g = 0;
		do
		:: g < end ->
			if
			:: isMessage(log[g]) -> log[g] = log[g] ^ 8
			:: log[g] == TAKEOVER(A) || log[g] == TAKEOVER(B) -> log[g] = 5 - log[g]
			:: else
			fi;
			g++
		:: else -> break
		od
	:: else
	fi;

	one = pastX + 4 * inst[A].x + 16 * inst[B].x;
	two = pastY + 4 * inst[A].y + 16 * inst[B].y;
	g = 0;
	do
	:: g < end ->
		if
		:: isMessage(log[g]) && idOf(log[g]) == 0 -> one = one + (64 << g)
		:: isMessage(log[g]) && idOf(log[g]) == 1 -> two = two + (64 << g)
		:: else
		fi;
		g++
	:: else -> break
	od;
	g = 0;
	do
	:: g < NET ->
		if
		:: batchIn(g) && net[g].first == 0 -> one = one + 4096 * (net[g].from + 2 * weight(g, n))
		:: batchIn(g) && net[g].first == 1 -> two = two + 4096 * (net[g].from + 2 * weight(g, n))
		:: else
		fi;
		g++
	:: else -> break
	od;
	if
	:: one < two ->
		NOTE(relettered, 1 - relettered);
		f = pastX; pastX = pastY; pastY = f;
		f = inst[A].x; inst[A].x = inst[A].y; inst[A].y = f;
		f = inst[B].x; inst[B].x = inst[B].y; inst[B].y = f;
		g = 0;
		do
		:: g < end ->
			if
			:: isMessage(log[g]) -> log[g] = log[g] ^ 4
			:: else
			fi;
			g++
		:: else -> break
		od;
		g = 0;
		do
		:: g < NET ->
			if
			:: batchIn(g) -> net[g].first = 1 - net[g].first
			:: else
			fi;
			g++
		:: else -> break
		od
	:: else
	fi
}

#define lower(offset) if :: offset < low -> low = offset :: else fi

inline tidy() {
	/* A late copy whose offset is taken is void wherever it lands (and a long one is as good as a
	 * short one that is doubled). */
	g = 0;
	do
	:: g < NET ->
		if
#ifdef NO_AT
		:: net[g].state == FLYING && net[g].waits == NOBODY && !net[g].takeover && net[g].base < end -> net[g].base = NEVER
#else
		:: net[g].state == FLYING && net[g].waits == NOBODY && !net[g].takeover && net[g].base < end ->
			net[g].base = NEVER; net[g].from = 0; net[g].n = 1; net[g].first = 0; net[g].serial = 0; net[g].no = 0
#endif
		:: else
		fi;
		g++
	:: else -> break
	od;

	/* The part of the log that nobody has to read again, except to load from the start, is summed up: the messages in
	 * it. Offsets count from there. */
	low = end;
	if :: inst[A].phase == OPEN || inst[A].phase == DRAIN -> lower(inst[A].next) :: else fi;
	if :: inst[B].phase == OPEN || inst[B].phase == DRAIN -> lower(inst[B].next) :: else fi;
	g = 0;
	do
	:: g < NET ->
		if
		:: net[g].waits == NOBODY
		:: net[g].waits != NOBODY && !net[g].takeover -> lower(net[g].base)
		:: net[g].waits != NOBODY && net[g].takeover && net[g].state == LANDED -> lower(net[g].landed)
		:: else
		fi;
		g++
	:: else -> break
	od;
	if
	:: low > 0 ->
		fold(low); pastX = foldX; pastY = foldY;
		g = 0;
		do
		:: g + low < end -> log[g] = log[g + low]; g++
		:: g + low >= end && g < end -> log[g] = EMPTY; g++
		:: else -> break
		od;
		end = end - low; NOTE(passed, passed + low);
		g = 0;
		do
		:: g < NET ->
			if
			:: net[g].state != FREE && !net[g].takeover && net[g].base != NEVER -> net[g].base = net[g].base - low
			:: else
			fi;
			if
			:: net[g].state == LANDED -> net[g].landed = net[g].landed - low
			:: else
			fi;
			g++
		:: else -> break
		od;
		if :: inst[A].phase == OPEN || inst[A].phase == DRAIN -> inst[A].next = inst[A].next - low :: else fi;
		if :: inst[B].phase == OPEN || inst[B].phase == DRAIN -> inst[B].next = inst[B].next - low :: else fi
	:: else
	fi;

	turn();

	/* Requests have no order, and a late copy may be doubled at any time: two alike are as good as one. */
	sort();
	drop(0, 1);
#if NET > 2
	drop(1, 2);
#endif
#if NET > 3
	drop(2, 3);
#endif
	sort();
	k = 0; r = 0; m = 0; s = 0; f = 0; g = 0; o = 0; foldX = 0; foldY = 0; hits = 0; fenced = 0; cut = 0; until = 0; low = 0; one = 0; two = 0
}

/* The tenure of i is over, and what it had in its local store is forgotten. Each commit was held against the log
 * (checkFold), so loading from there and loading from the log's start end alike. */
inline forget(i) { inst[i].lease = 0; inst[i].next = 0; inst[i].x = 0; inst[i].y = 0 }
