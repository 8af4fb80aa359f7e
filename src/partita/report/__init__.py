"""What people see of results: sentences, tables, documents and pictures, by what the problem reports."""
