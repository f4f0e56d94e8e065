"""Small stand-ins for databases that people bring: the shapes, names and quirks of Chinook, Northwind, Sakila, nycflights13,
Formula 1, a shop without constraints, and git histories, with made-up rows. Each says what a person would expect of a draft:
which foreign keys there are, since when a row exists, and (from the rows themselves) the true time of every row.

A stand-in is a list of tables; `write_sqlite` and `write_csv` put it where weir can read it.
"""

import csv
import random
import sqlite3
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

Row = dict[str, Any]


@dataclass
class Table:
    name: str
    columns: dict[str, str]  # name -> declared type in SQLite
    rows: list[Row] = field(default_factory=list)
    primary_key: list[str] = field(default_factory=list)
    foreign_keys: dict[str, str] = field(default_factory=dict)  # column -> table, for declarations


@dataclass
class Standin:
    name: str
    tables: list[Table]
    edges: set[tuple[str, str, str]]  # table, column (several joined by +), parent
    times: dict[str, str]  # table -> temporal_column; tables that are not in it have none
    keys: dict[str, list[str]]  # what the primary key must be
    is_declared: bool = True
    null: str = ""
    forbidden_targets: tuple[str, ...] = ()

    def table(self, name: str) -> Table:
        return next(table for table in self.tables if table.name == name)


def moment(rng: random.Random, start: datetime, days: float) -> str:
    return (start + timedelta(seconds=int(rng.random() * days * 86400))).strftime("%Y-%m-%d %H:%M:%S")


def words(rng: random.Random, count: int = 3) -> str:
    return " ".join(rng.choice("amber birch cedar delta ember fjord gale harbour iris juniper".split()) for _ in range(count))


# ---- Chinook: albums, tracks, invoices ---------------------------------------------------------------------


def chinook(rng: random.Random) -> Standin:
    start = datetime(2021, 1, 1)
    artists = [{"ArtistId": i, "Name": words(rng)} for i in range(1, 31)]
    albums = [{"AlbumId": i, "Title": words(rng), "ArtistId": rng.randint(1, 30)} for i in range(1, 61)]
    genres = [{"GenreId": i, "Name": words(rng, 1)} for i in range(1, 9)]
    tracks = [{"TrackId": i, "Name": words(rng), "AlbumId": rng.randint(1, 60), "GenreId": rng.randint(1, 8),
               "Composer": words(rng, 2), "Milliseconds": rng.randint(90_000, 400_000), "Bytes": rng.randint(10**6, 10**7),
               "UnitPrice": rng.choice([0.99, 1.99])} for i in range(1, 401)]
    employees = [{"EmployeeId": i, "LastName": words(rng, 1), "ReportsTo": None if i == 1 else rng.randint(1, i - 1),
                  "BirthDate": moment(rng, datetime(1960, 1, 1), 9000), "HireDate": moment(rng, datetime(2002, 1, 1), 900)}
                 for i in range(1, 9)]
    customers = [{"CustomerId": i, "FirstName": words(rng, 1), "Country": rng.choice(["Norway", "Chile"]),
                  "Email": f"c{i}@example.org", "SupportRepId": rng.randint(1, 8)} for i in range(1, 60)]
    invoices, lines = [], []
    for i in range(1, 301):
        invoices.append({"InvoiceId": i, "CustomerId": rng.randint(1, 59), "InvoiceDate": moment(rng, start, 1400),
                         "BillingCity": words(rng, 1), "Total": 0.0})
        for _ in range(rng.randint(1, 6)):
            price = rng.choice([0.99, 1.99])
            lines.append({"InvoiceLineId": len(lines) + 1, "InvoiceId": i, "TrackId": rng.randint(1, 400), "UnitPrice": price,
                          "Quantity": 1})
            invoices[-1]["Total"] = round(invoices[-1]["Total"] + price, 2)
    ids = lambda table: {table: [table + "Id"]}  # noqa: E731
    tables = [
        Table("Artist", {"ArtistId": "INTEGER", "Name": "NVARCHAR(120)"}, artists, ["ArtistId"]),
        Table("Album", {"AlbumId": "INTEGER", "Title": "NVARCHAR(160)", "ArtistId": "INTEGER"}, albums, ["AlbumId"],
              {"ArtistId": "Artist"}),
        Table("Genre", {"GenreId": "INTEGER", "Name": "NVARCHAR(120)"}, genres, ["GenreId"]),
        Table("Track", {"TrackId": "INTEGER", "Name": "NVARCHAR(200)", "AlbumId": "INTEGER", "GenreId": "INTEGER",
                        "Composer": "NVARCHAR(220)", "Milliseconds": "INTEGER", "Bytes": "INTEGER",
                        "UnitPrice": "NUMERIC(10,2)"}, tracks, ["TrackId"], {"AlbumId": "Album", "GenreId": "Genre"}),
        Table("Employee", {"EmployeeId": "INTEGER", "LastName": "NVARCHAR(20)", "ReportsTo": "INTEGER",
                           "BirthDate": "DATETIME", "HireDate": "DATETIME"}, employees, ["EmployeeId"],
              {"ReportsTo": "Employee"}),
        Table("Customer", {"CustomerId": "INTEGER", "FirstName": "NVARCHAR(40)", "Country": "NVARCHAR(40)",
                           "Email": "NVARCHAR(60)", "SupportRepId": "INTEGER"}, customers, ["CustomerId"],
              {"SupportRepId": "Employee"}),
        Table("Invoice", {"InvoiceId": "INTEGER", "CustomerId": "INTEGER", "InvoiceDate": "DATETIME",
                          "BillingCity": "NVARCHAR(40)", "Total": "NUMERIC(10,2)"}, invoices, ["InvoiceId"],
              {"CustomerId": "Customer"}),
        Table("InvoiceLine", {"InvoiceLineId": "INTEGER", "InvoiceId": "INTEGER", "TrackId": "INTEGER",
                              "UnitPrice": "NUMERIC(10,2)", "Quantity": "INTEGER"}, lines, ["InvoiceLineId"],
              {"InvoiceId": "Invoice", "TrackId": "Track"}),
    ]
    edges = {(t.name, c, p) for t in tables for c, p in t.foreign_keys.items()}
    times = {"Employee": "HireDate", "Customer": "SupportRepId -> Employee.HireDate", "Invoice": "InvoiceDate",
             "InvoiceLine": "InvoiceId -> Invoice.InvoiceDate"}
    return Standin("chinook", tables, edges, times, {k: v for t in tables for k, v in ids(t.name).items()})


# ---- Northwind: order details with a key of two columns ----------------------------------------------------


def northwind(rng: random.Random) -> Standin:
    start = datetime(1996, 7, 1)
    employees = [{"EmployeeID": i, "Title": words(rng, 2), "BirthDate": moment(rng, datetime(1940, 1, 1), 9000)[:10],
                  "HireDate": moment(rng, datetime(1992, 1, 1), 700)[:10], "ReportsTo": None if i == 2 else 2}
                 for i in range(1, 10)]
    products = [{"ProductID": i, "ProductName": words(rng), "UnitPrice": rng.randint(2, 90), "UnitsInStock": rng.randint(0, 99),
                 "Discontinued": rng.choice("01")} for i in range(1, 41)]
    customers = [{"CustomerID": "".join(rng.choice("ABCDEFGHIJ") for _ in range(5)) + str(i), "CompanyName": words(rng),
                  "City": words(rng, 1)} for i in range(50)]
    orders, details = [], []
    for i in range(10248, 10548):
        placed = start + timedelta(days=(i - 10248) * 2.1)
        orders.append({"OrderID": i, "CustomerID": rng.choice(customers)["CustomerID"], "EmployeeID": rng.randint(1, 9),
                       "OrderDate": placed.strftime("%Y-%m-%d"),
                       "RequiredDate": (placed + timedelta(28)).strftime("%Y-%m-%d"),
                       "ShippedDate": None if rng.random() < .05 else (placed + timedelta(rng.randint(1, 30))).strftime("%Y-%m-%d"),
                       "Freight": round(rng.random() * 100, 2), "ShipCountry": rng.choice(["Brazil", "France", "UK"])})
        for product in rng.sample(range(1, 41), rng.randint(1, 4)):
            details.append({"OrderID": i, "ProductID": product, "UnitPrice": rng.randint(2, 90), "Quantity": rng.randint(1, 60),
                            "Discount": rng.choice([0, .05, .1])})
    tables = [
        Table("Employees", {"EmployeeID": "INTEGER", "Title": "TEXT", "BirthDate": "DATE", "HireDate": "DATE",
                            "ReportsTo": "INTEGER"}, employees, ["EmployeeID"], {"ReportsTo": "Employees"}),
        Table("Products", {"ProductID": "INTEGER", "ProductName": "TEXT", "UnitPrice": "NUMERIC", "UnitsInStock": "INTEGER",
                           "Discontinued": "TEXT"}, products, ["ProductID"]),
        Table("Customers", {"CustomerID": "TEXT", "CompanyName": "TEXT", "City": "TEXT"}, customers, ["CustomerID"]),
        Table("Orders", {"OrderID": "INTEGER", "CustomerID": "TEXT", "EmployeeID": "INTEGER", "OrderDate": "DATETIME",
                         "RequiredDate": "DATETIME", "ShippedDate": "DATETIME", "Freight": "NUMERIC", "ShipCountry": "TEXT"},
              orders, ["OrderID"], {"CustomerID": "Customers", "EmployeeID": "Employees"}),
        Table("Order Details", {"OrderID": "INTEGER", "ProductID": "INTEGER", "UnitPrice": "NUMERIC", "Quantity": "INTEGER",
                                "Discount": "REAL"}, details, ["OrderID", "ProductID"],
              {"OrderID": "Orders", "ProductID": "Products"}),
    ]
    edges = {(t.name, c, p) for t in tables for c, p in t.foreign_keys.items()}
    times = {"Employees": "HireDate", "Orders": "OrderDate", "Order Details": "OrderID -> Orders.OrderDate"}
    return Standin("northwind", tables, edges, times, {t.name: t.primary_key for t in tables})


# ---- Sakila: everything was updated last after everything happened -----------------------------------------


def sakila(rng: random.Random) -> Standin:
    updated = "2006-02-15 04:57:20"
    start = datetime(2005, 5, 24)
    actors = [{"actor_id": i, "first_name": words(rng, 1), "last_update": updated} for i in range(1, 41)]
    films = [{"film_id": i, "title": words(rng), "release_year": "2006", "length": rng.randint(60, 180),
              "rating": rng.choice(["G", "PG", "R"]), "last_update": updated} for i in range(1, 81)]
    pairs = sorted({(rng.randint(1, 40), rng.randint(1, 80)) for _ in range(160)})
    stores = [{"store_id": i, "manager_staff_id": i, "last_update": updated} for i in (1, 2)]
    staff = [{"staff_id": i, "first_name": words(rng, 1), "email": f"s{i}@example.org", "store_id": i, "active": 1,
              "username": words(rng, 1), "password": "8cb2237d0679ca88db6464eac60da96345513964", "last_update": updated}
             for i in (1, 2)]
    inventory = [{"inventory_id": i, "film_id": rng.randint(1, 80), "store_id": rng.randint(1, 2), "last_update": updated}
                 for i in range(1, 201)]
    customers = [{"customer_id": i, "store_id": rng.randint(1, 2), "first_name": words(rng, 1),
                  "email": f"c{i}@example.org", "active": "1" if rng.random() < .9 else "0",
                  "create_date": "2006-02-14 22:04:36", "last_update": updated} for i in range(1, 61)]
    rentals, payments = [], []
    for i in range(1, 601):
        out = moment(rng, start, 90)
        back = datetime.fromisoformat(out) + timedelta(days=rng.randint(1, 9))
        rentals.append({"rental_id": i, "rental_date": out, "inventory_id": rng.randint(1, 200),
                        "customer_id": rng.randint(1, 60), "return_date": back.strftime("%Y-%m-%d %H:%M:%S"),
                        "staff_id": rng.randint(1, 2), "last_update": updated})
        payments.append({"payment_id": i, "customer_id": rentals[-1]["customer_id"], "staff_id": rentals[-1]["staff_id"],
                         "rental_id": i, "amount": rng.choice([0.99, 2.99, 4.99]), "payment_date": out})
    stamp = {"last_update": "TIMESTAMP"}
    tables = [
        Table("actor", {"actor_id": "INTEGER", "first_name": "VARCHAR(45)", **stamp}, actors, ["actor_id"]),
        Table("film", {"film_id": "INTEGER", "title": "VARCHAR(255)", "release_year": "VARCHAR(4)", "length": "INT",
                       "rating": "VARCHAR(10)", **stamp}, films, ["film_id"]),
        Table("film_actor", {"actor_id": "INT", "film_id": "INT", **stamp},
              [{"actor_id": a, "film_id": f, "last_update": updated} for a, f in pairs], ["actor_id", "film_id"],
              {"actor_id": "actor", "film_id": "film"}),
        Table("store", {"store_id": "INTEGER", "manager_staff_id": "INT", **stamp}, stores, ["store_id"],
              {"manager_staff_id": "staff"}),
        Table("staff", {"staff_id": "INTEGER", "first_name": "VARCHAR(45)", "email": "VARCHAR(50)", "store_id": "INT",
                        "active": "SMALLINT", "username": "VARCHAR(16)", "password": "VARCHAR(40)", **stamp}, staff,
              ["staff_id"], {"store_id": "store"}),
        Table("inventory", {"inventory_id": "INTEGER", "film_id": "INT", "store_id": "INT", **stamp}, inventory,
              ["inventory_id"], {"film_id": "film", "store_id": "store"}),
        Table("customer", {"customer_id": "INTEGER", "store_id": "INT", "first_name": "VARCHAR(45)", "email": "VARCHAR(50)",
                           "active": "CHAR(1)", "create_date": "TIMESTAMP", **stamp}, customers, ["customer_id"],
              {"store_id": "store"}),
        Table("rental", {"rental_id": "INTEGER", "rental_date": "TIMESTAMP", "inventory_id": "INT", "customer_id": "INT",
                         "return_date": "TIMESTAMP", "staff_id": "SMALLINT", **stamp}, rentals, ["rental_id"],
              {"inventory_id": "inventory", "customer_id": "customer", "staff_id": "staff"}),
        Table("payment", {"payment_id": "INTEGER", "customer_id": "INT", "staff_id": "SMALLINT", "rental_id": "INT",
                          "amount": "DECIMAL(5,2)", "payment_date": "TIMESTAMP"}, payments, ["payment_id"],
              {"customer_id": "customer", "staff_id": "staff", "rental_id": "rental"}),
    ]
    edges = {(t.name, c, p) for t in tables for c, p in t.foreign_keys.items()}
    return Standin("sakila", tables, edges, {"rental": "rental_date", "payment": "payment_date"},
                   {t.name: t.primary_key for t in tables})


# ---- nycflights13: CSV, NA, natural keys, weather by two columns -------------------------------------------


def flights(rng: random.Random) -> Standin:
    carriers = ["UA", "AA", "B6", "DL", "EV"]
    ports = ["EWR", "LGA", "JFK", "IAH", "MIA", "ATL", "ORD", "FLL", "BQN"]
    start = datetime(2013, 1, 1, 5)
    hours = [start + timedelta(hours=h) for h in range(0, 24 * 40)]
    weather = [{"origin": origin, "year": h.year, "month": h.month, "day": h.day, "hour": h.hour,
                "temp": round(rng.uniform(20, 60), 2), "wind_gust": None if rng.random() < .7 else rng.randint(10, 40),
                "time_hour": h.strftime("%Y-%m-%dT%H:%M:%SZ")} for origin in ports[:3] for h in hours]
    planes = [{"tailnum": f"N{i}UA", "year": None if rng.random() < .1 else rng.randint(1985, 2013),
               "manufacturer": rng.choice(["BOEING", "AIRBUS"]), "seats": rng.randint(20, 300)} for i in range(100, 160)]
    rows = []
    for h in sorted(rng.choices(hours, k=1500)):
        late = None if rng.random() < .03 else rng.randint(-10, 90)
        rows.append({"year": h.year, "month": h.month, "day": h.day, "dep_delay": late,
                     "arr_delay": None if late is None else late + rng.randint(-20, 30), "carrier": rng.choice(carriers),
                     "flight": rng.randint(1, 900), "tailnum": None if rng.random() < .01 else rng.choice(planes)["tailnum"],
                     "origin": rng.choice(ports[:3]), "dest": rng.choice(ports[3:-1] * 6 + ports[-1:]), "air_time": rng.randint(40, 350),
                     "distance": rng.randint(150, 2500), "hour": h.hour, "time_hour": h.strftime("%Y-%m-%dT%H:%M:%SZ")})
    tables = [
        Table("airlines", {"carrier": "", "name": ""}, [{"carrier": c, "name": words(rng)} for c in carriers]),
        Table("airports", {"faa": "", "name": "", "lat": "", "lon": ""},
              [{"faa": p, "name": words(rng), "lat": round(rng.uniform(25, 48), 4), "lon": round(rng.uniform(-120, -70), 4)}
               for p in ports[:-1]]),
        Table("planes", dict.fromkeys(planes[0], ""), planes),
        Table("weather", dict.fromkeys(weather[0], ""), weather),
        Table("flights", dict.fromkeys(rows[0], ""), rows),
    ]
    edges = {("flights", "carrier", "airlines"), ("flights", "tailnum", "planes"), ("flights", "origin", "airports"),
             ("weather", "origin", "airports"), ("flights", "origin+time_hour", "weather"), ("flights", "dest", "airports")}
    return Standin("flights", tables, edges, {"weather": "time_hour", "flights": "time_hour"},
                   {"airlines": ["carrier"], "airports": ["faa"], "planes": ["tailnum"], "weather": ["origin", "time_hour"]},
                   is_declared=False, null="NA", forbidden_targets=("year", "month", "day", "hour"))


# ---- Formula 1: CSV, \N, times only in races ---------------------------------------------------------------


def formula_1(rng: random.Random) -> Standin:
    circuits = [{"circuitId": i, "circuitRef": words(rng, 1) + str(i), "name": words(rng), "alt": rng.randint(0, 900)}
                for i in range(1, 16)]
    drivers = [{"driverId": i, "driverRef": words(rng, 1) + str(i), "number": None if rng.random() < .5 else rng.randint(1, 99),
                "dob": moment(rng, datetime(1960, 1, 1), 14000)[:10], "nationality": rng.choice(["British", "German", "Finnish"])}
               for i in range(1, 41)]
    teams = [{"constructorId": i, "name": words(rng), "nationality": rng.choice(["British", "Italian"])} for i in range(1, 11)]
    status = [{"statusId": i, "status": text} for i, text in enumerate(["Finished", "Collision", "Engine", "+1 Lap"], 1)]
    races, results, standings = [], [], []
    for i in range(1, 61):
        day = datetime(2004, 3, 7) + timedelta(days=20 * i)
        races.append({"raceId": i, "year": day.year, "round": i % 18 + 1, "circuitId": rng.randint(1, 15), "name": words(rng),
                      "date": day.strftime("%Y-%m-%d"), "time": None if i < 20 else "14:00:00"})
        for place, driver in enumerate(rng.sample(range(1, 41), 20), 1):
            done = rng.random() < .8
            results.append({"resultId": len(results) + 1, "raceId": i, "driverId": driver, "constructorId": rng.randint(1, 10),
                            "grid": rng.randint(1, 20), "position": place if done else None,
                            "positionText": str(place) if done else "R", "positionOrder": place,
                            "points": max(0, 11 - place) if done else 0, "laps": rng.randint(3, 70),
                            "statusId": 1 if done else rng.randint(2, 4)})
            standings.append({"driverStandingsId": len(standings) + 1, "raceId": i, "driverId": driver,
                              "points": rng.randint(0, 90), "position": rng.randint(1, 40), "wins": rng.randint(0, 5)})
    tables = [Table(name, dict.fromkeys(rows[0], ""), rows) for name, rows in (
        ("circuits", circuits), ("drivers", drivers), ("constructors", teams), ("status", status), ("races", races),
        ("results", results), ("driver_standings", standings))]
    edges = {("races", "circuitId", "circuits"), ("results", "raceId", "races"), ("results", "driverId", "drivers"),
             ("results", "constructorId", "constructors"), ("results", "statusId", "status"),
             ("driver_standings", "raceId", "races"), ("driver_standings", "driverId", "drivers")}
    times = {"races": "date", "results": "raceId -> races.date", "driver_standings": "raceId -> races.date"}
    keys = {"circuits": ["circuitId"], "drivers": ["driverId"], "constructors": ["constructorId"], "status": ["statusId"],
            "races": ["raceId"], "results": ["resultId"], "driver_standings": ["driverStandingsId"]}
    return Standin("f1", tables, edges, times, keys, is_declared=False, null="\\N", forbidden_targets=("year", "number"))


# ---- A shop without a single constraint --------------------------------------------------------------------


def mini_shop(rng: random.Random) -> Standin:
    start = datetime(2023, 1, 1)
    customers = [{"customer_id": 1000 + i, "age": rng.randint(18, 80), "country": rng.choice(["de", "fr", "it"]),
                  "is_member": rng.randint(0, 1), "signup_date": moment(rng, start - timedelta(300), 290)[:10]} for i in range(120)]
    articles = [{"article_id": 50000 + 3 * i, "category": words(rng, 1), "price": round(rng.uniform(2, 90), 2)} for i in range(80)]
    transactions = [{"transaction_id": 900000 + i, "customer_id": rng.choice(customers)["customer_id"],
                     "article_id": rng.choice(articles)["article_id"], "quantity": rng.randint(1, 5),
                     "channel": rng.choice(["web", "shop"]), "ts": moment(rng, start, 300)} for i in range(1500)]
    reviews = [{"review_id": i, "customer_id": rng.choice(customers)["customer_id"], "article_id": rng.choice(articles)["article_id"],
                "rating": rng.randint(1, 5), "comment": words(rng, 6), "created_at": moment(rng, start, 300)} for i in range(1, 301)]
    tables = [
        Table("customers", {"customer_id": "INTEGER", "age": "INTEGER", "country": "TEXT", "is_member": "INTEGER",
                            "signup_date": "TEXT"}, customers),
        Table("articles", {"article_id": "INTEGER", "category": "TEXT", "price": "REAL"}, articles),
        Table("transactions", {"transaction_id": "INTEGER", "customer_id": "INTEGER", "article_id": "INTEGER",
                               "quantity": "INTEGER", "channel": "TEXT", "ts": "TEXT"}, transactions),
        Table("reviews", {"review_id": "INTEGER", "customer_id": "INTEGER", "article_id": "INTEGER", "rating": "INTEGER",
                          "comment": "TEXT", "created_at": "TEXT"}, reviews),
    ]
    edges = {(t, c, p) for t in ("transactions", "reviews") for c, p in (("customer_id", "customers"), ("article_id", "articles"))}
    return Standin("minishop", tables, edges, {"customers": "signup_date", "transactions": "ts", "reviews": "created_at"},
                   {"customers": ["customer_id"], "articles": ["article_id"], "transactions": ["transaction_id"],
                    "reviews": ["review_id"]}, is_declared=False, forbidden_targets=("transaction_id", "customer_id"))


# ---- Git histories: unix seconds, hashes -------------------------------------------------------------------


def _history(rng: random.Random, name: str, repositories: int) -> Standin:
    authors = [{"author_id": i, "name": words(rng, 2), "email": f"a{i}@example.org"} for i in range(1, 31)]
    repos = [{"repo_id": i, "name": words(rng, 1) + str(i)} for i in range(1, repositories + 1)]
    files = [{"file_id": i, "repo_id": rng.randint(1, repositories), "path": f"src/{words(rng, 1)}/{i}.py"} for i in range(1, 201)]
    commits, changes = [], []
    for i in range(1, 401):
        at = 1_500_000_000 + 3600 * 5 * i
        commits.append({"commit_id": i, "sha": f"{rng.getrandbits(160):040x}", "author_id": rng.randint(1, 30),
                        "repo_id": rng.randint(1, repositories), "committed_at": at, "authored_at": at - rng.randint(0, 9000),
                        "is_merge": int(rng.random() < .2), "message": words(rng, 5)})
        for file in rng.sample(range(1, 201), rng.randint(1, 5)):
            changes.append({"commit_id": i, "file_id": file, "added": rng.randint(0, 200), "removed": rng.randint(0, 90)})
    integer = lambda row: {k: "TEXT" if isinstance(v, str) else "INTEGER" for k, v in row.items()}  # noqa: E731
    tables = [Table("authors", integer(authors[0]), authors), Table("files", integer(files[0]), files),
              Table("commits", integer(commits[0]), commits), Table("changes", integer(changes[0]), changes)]
    edges = {("commits", "author_id", "authors"), ("changes", "commit_id", "commits"), ("changes", "file_id", "files")}
    keys = {"authors": ["author_id"], "files": ["file_id"], "commits": ["commit_id"], "changes": ["commit_id", "file_id"]}
    if repositories > 1:
        tables.append(Table("repos", integer(repos[0]), repos))
        edges |= {("files", "repo_id", "repos"), ("commits", "repo_id", "repos")}
        keys["repos"] = ["repo_id"]
    else:
        for table in tables:
            table.columns.pop("repo_id", None)
            table.rows = [{k: v for k, v in row.items() if k != "repo_id"} for row in table.rows]
    times = {"commits": "authored_at", "changes": "commit_id -> commits.authored_at"}
    return Standin(name, tables, edges, times, keys, is_declared=False, forbidden_targets=("sha",))


def git_one(rng: random.Random) -> Standin:
    return _history(rng, "git", 1)


def git_many(rng: random.Random) -> Standin:
    return _history(rng, "gits", 12)


ALL = [chinook, northwind, sakila, flights, formula_1, mini_shop, git_one, git_many]


# ---- Where weir can read it --------------------------------------------------------------------------------


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def write_sqlite(standin: Standin, path: Path, with_keys: bool | None = None) -> Path:
    """`with_keys` declares them, or not; by default as the stand-in does."""
    with_keys = standin.is_declared if with_keys is None else with_keys
    database = sqlite3.connect(path)
    database.execute("PRAGMA synchronous = OFF")  # it need not outlive the machine
    for table in standin.tables:
        parts = [f"{quoted(name)} {kind}" for name, kind in table.columns.items()]
        if with_keys and table.primary_key:
            parts.append(f"PRIMARY KEY ({', '.join(map(quoted, table.primary_key))})")
        if with_keys:
            parts += [f"FOREIGN KEY ({quoted(c)}) REFERENCES {quoted(p)}" for c, p in table.foreign_keys.items()]
        database.execute(f"CREATE TABLE {quoted(table.name)} ({', '.join(parts)})")
        marks = ", ".join("?" for _ in table.columns)
        database.executemany(f"INSERT INTO {quoted(table.name)} VALUES ({marks})",
                             [[row[c] for c in table.columns] for row in table.rows])
    database.commit()
    database.close()
    return path


def write_csv(standin: Standin, folder: Path) -> Path:
    folder.mkdir()
    for table in standin.tables:
        with open(folder / f"{table.name}.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(table.columns)
            writer.writerows([[standin.null if row[c] is None else row[c] for c in table.columns] for row in table.rows])
    return folder


# ---- The truth about times ---------------------------------------------------------------------------------


def seconds(value: Any) -> float:
    if isinstance(value, (int, float)):
        return float(value)
    text = str(value).replace("T", " ").rstrip("Z")
    return (datetime.fromisoformat(text) - datetime(1970, 1, 1)).total_seconds()


def true_times(standin: Standin) -> dict[str, dict[str, float | None]]:
    """For every table, by the text of its key (as weir shows it): when the row came to be, or None for always. Made from the
    rows alone, along the keys that a person would follow."""
    found: dict[str, dict[str, float | None]] = {}
    for table in standin.tables:
        key = standin.keys.get(table.name, [])
        found[table.name] = {key_text([row[c] for c in key]): _time_of(standin, table, row) for row in table.rows} if key else {}
    return found


def key_text(values: list[Any]) -> str:
    shown = [f"'{value}'" if isinstance(value, str) else str(value) for value in values]
    return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"


def _time_of(standin: Standin, table: Table, row: Row) -> float | None:
    way = standin.times.get(table.name)
    if way is None:
        return None
    if " -> " not in way:
        return None if row[way] is None else seconds(row[way])
    column, _, rest = way.partition(" -> ")
    parent = standin.table(rest.partition(".")[0])
    key = standin.keys[parent.name][0]
    for candidate in parent.rows:
        if candidate[key] == row[column]:
            return _time_of(standin, parent, candidate)
    return None
